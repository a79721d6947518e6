//! Values that are copied from one Lua state to another, as `thread:set` and `thread:get` do.

use mlua::{Lua, Value};

/// Maximum nesting of tables; a table that contains itself has no end.
const DEEPEST: usize = 100;

/// A value that can be copied.
pub enum Plain {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Vec<u8>),
    Table(Vec<(Plain, Plain)>),
}

impl Plain {
    /// Copies a value out of its state.
    ///
    /// # Errors
    /// A part of it belongs to its state: a function, a coroutine, userdata.
    pub fn of(value: &Value) -> mlua::Result<Self> {
        Self::at(value, 0)
    }

    fn at(value: &Value, depth: usize) -> mlua::Result<Self> {
        let refused = |what: &str| Err(mlua::Error::runtime(format!("{what} can't be handed to another thread")));
        match value {
            Value::Nil => Ok(Self::Nil),
            Value::Boolean(value) => Ok(Self::Boolean(*value)),
            Value::Integer(value) => Ok(Self::Number(*value as f64)),
            Value::Number(value) => Ok(Self::Number(*value)),
            Value::String(text) => Ok(Self::Text(text.as_bytes().to_vec())),
            Value::Table(_) if depth == DEEPEST => refused("a table that holds itself"),
            Value::Table(table) => {
                let mut pairs = Vec::new();
                for pair in table.pairs::<Value, Value>() {
                    let (key, item) = pair?;
                    pairs.push((Self::at(&key, depth + 1)?, Self::at(&item, depth + 1)?));
                }
                Ok(Self::Table(pairs))
            }
            other => refused(&format!("a {}", other.type_name())),
        }
    }

    /// Appends the value as bytes: a kind, then a length or a number of eight bytes, then as many bytes.
    pub fn write(&self, into: &mut Vec<u8>) {
        let mut head = |kind: u8, number: u64| {
            into.push(kind);
            into.extend_from_slice(&number.to_le_bytes());
        };
        match self {
            Self::Nil => head(0, 0),
            Self::Boolean(value) => head(1, u64::from(*value)),
            Self::Number(value) => head(2, value.to_bits()),
            Self::Text(text) => {
                head(3, text.len() as u64);
                into.extend_from_slice(text);
            }
            Self::Table(pairs) => {
                head(4, pairs.len() as u64);
                for (key, item) in pairs {
                    key.write(into);
                    item.write(into);
                }
            }
        }
    }

    /// Reads what `write` has written, and moves on; None if the bytes have another form.
    pub fn read(from: &mut &[u8], depth: usize) -> Option<Self> {
        let (kind, rest) = from.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*number);
        *from = rest;
        match (kind, usize::try_from(number).ok()?) {
            (0, _) => Some(Self::Nil),
            (1, _) => Some(Self::Boolean(number != 0)),
            (2, _) => Some(Self::Number(f64::from_bits(number))),
            (3, length) => {
                let text = from.split_off(..length)?;
                Some(Self::Text(text.to_vec()))
            }
            (4, count) if depth < DEEPEST => {
                // A pair has at least 18 bytes: no count reserves more memory than its bytes would fill.
                let mut pairs = Vec::with_capacity(count.min(from.len() / 18));
                for _ in 0..count {
                    pairs.push((Self::read(from, depth + 1)?, Self::read(from, depth + 1)?));
                }
                Some(Self::Table(pairs))
            }
            _ => None,
        }
    }

    /// Creates a copy in another state.
    ///
    /// # Errors
    /// That state has no memory left.
    pub fn into_lua(self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Nil => Value::Nil,
            Self::Boolean(value) => Value::Boolean(value),
            Self::Number(value) => Value::Number(value),
            Self::Text(text) => Value::String(lua.create_string(text)?),
            Self::Table(pairs) => {
                let table = lua.create_table()?;
                for (key, item) in pairs {
                    table.raw_set(key.into_lua(lua)?, item.into_lua(lua)?)?;
                }
                Value::Table(table)
            }
        })
    }
}
