//! Values on their way from one Lua state to another: copies, as `thread:set` and `thread:get` hand them over.

use mlua::{Lua, Value};

/// Tables within tables; one that holds itself has no end.
const DEEPEST: usize = 100;

/// What can be copied.
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
    /// It has a part that belongs to its state alone: a function, a coroutine, userdata.
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

    /// Makes it anew in another state.
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
