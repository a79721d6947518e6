//! What the heads of correct responses look like: which fields they have, and which values stay the same.
//!
//! Every head under load is compared. That costs nothing while a server repeats itself: the result for a head is kept and
//! used again if the next head has the same bytes.

use std::cmp::Ordering;
use std::sync::Arc;

/// A field's name and its value.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// HTTP/1's version, under a field name that no server can send.
pub const VERSION: &[u8] = b":version";
/// HTTP/1's reason phrase, in the same way.
pub const REASON: &[u8] = b":reason";

/// All names and values together may be this many bytes shorter than those of the reference.
const FEWER_BYTES: usize = 64;

/// The head of a reference response, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceHead {
    /// Sorted by name; fields of the same name keep their order. `true`: the value must be the same.
    fields: Vec<(Vec<u8>, Vec<u8>, bool)>,
    bytes: usize,
}

impl ReferenceHead {
    /// From the fields of a reference response: name, value, and whether the value must be the same.
    pub fn new(mut fields: Vec<(Vec<u8>, Vec<u8>, bool)>) -> Self {
        fields.sort_by(|one, other| by_name(&one.0, &other.0));
        let bytes = fields.iter().map(|(name, value, _)| name.len() + value.len()).sum();
        Self { fields, bytes }
    }

    /// The differences to these sorted fields: one phrase each.
    fn differences(&self, given: &[Field]) -> Vec<String> {
        let mut differences = Vec::new();
        let (mut expected, mut came) = (self.fields.iter().peekable(), given.iter().peekable());
        loop {
            let order = match (expected.peek(), came.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => by_name(&one.0, other.0),
            };
            let (one, other) = (expected.next_if(|_| order.is_le()), came.next_if(|_| order.is_ge()));
            match (one, other) {
                (Some((name, value, _)), None) => {
                    differences.push(format!("{} is missing, {} is expected", text(name), quoted(value)));
                }
                (None, Some((name, value))) => {
                    differences.push(format!("{} is {}, no such header is expected", text(name), quoted(value)));
                }
                (Some((name, value, true)), Some((_, given))) if !value.eq_ignore_ascii_case(given) => {
                    differences.push(format!("{} is {}, {} is expected", text(name), quoted(given), quoted(value)));
                }
                _ => {}
            }
        }
        let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len()).sum();
        if differences.is_empty() && bytes + FEWER_BYTES < self.bytes {
            differences.push(format!("its headers have {bytes} bytes, {} are expected", self.bytes));
        }
        differences
    }
}

/// The heads that correct responses to one kind of request may have; none: heads are not compared.
#[derive(Clone, Debug, Default)]
pub struct ExpectedHeads(Arc<[ReferenceHead]>);

impl ExpectedHeads {
    /// Accepts any of these heads.
    pub fn new(heads: Vec<ReferenceHead>) -> Self {
        Self(heads.into())
    }

    /// How a head differs from the nearest reference; None: it does not differ.
    pub fn deviation<'a>(&self, fields: impl Iterator<Item = Field<'a>>) -> Option<Box<str>> {
        if self.0.is_empty() {
            return None;
        }
        let mut fields: Vec<Field> = fields.collect();
        fields.sort_by(|one, other| by_name(one.0, other.0));
        let mut nearest: Option<Vec<String>> = None;
        for head in self.0.iter() {
            let differences = head.differences(&fields);
            if differences.is_empty() {
                return None;
            }
            if nearest.as_ref().is_none_or(|nearest| differences.len() < nearest.len()) {
                nearest = Some(differences);
            }
        }
        nearest.map(|differences| differences.join("; ").into())
    }
}

/// Compares names without regard to upper and lower case.
fn by_name(one: &[u8], other: &[u8]) -> Ordering {
    let lower = |name: &[u8]| name.iter().map(u8::to_ascii_lowercase).collect::<Vec<_>>();
    if one.eq_ignore_ascii_case(other) { Ordering::Equal } else { lower(one).cmp(&lower(other)) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

fn quoted(value: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&value[..value.len().min(60)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(heads: &[&[(&str, &str, bool)]]) -> ExpectedHeads {
        let field =
            |(name, value, exact): &(&str, &str, bool)| (name.as_bytes().into(), value.as_bytes().into(), *exact);
        ExpectedHeads::new(heads.iter().map(|head| ReferenceHead::new(head.iter().map(field).collect())).collect())
    }

    fn deviation(expected: &ExpectedHeads, fields: &[(&str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        expected.deviation(fields).map_or(String::new(), String::from)
    }

    const PLAIN: &[(&str, &str, bool)] =
        &[("content-type", "text/plain", true), ("date", "Mon", false), ("connection", "keep-alive", true)];

    #[test]
    fn order_case_and_values_that_may_vary_are_no_deviation() {
        let heads = expected(&[PLAIN]);
        let same = [("Date", "Tue"), ("Connection", "Keep-Alive"), ("Content-Type", "text/plain")];
        assert_eq!(deviation(&heads, &same), "");
    }

    #[test]
    fn missing_added_and_differing_headers_are_named() {
        let heads = expected(&[PLAIN]);
        assert_eq!(
            deviation(&heads, &[("connection", "keep-alive"), ("date", "Mon")]),
            "content-type is missing, \"text/plain\" is expected"
        );
        assert_eq!(
            deviation(&heads, &[("content-type", "a/b"), ("connection", "keep-alive"), ("date", "Mon"), ("x", "1")]),
            "content-type is \"a/b\", \"text/plain\" is expected; x is \"1\", no such header is expected"
        );
    }

    #[test]
    fn of_two_headers_of_one_name_none_may_be_missing() {
        let heads = expected(&[&[("vary", "a", true), ("vary", "b", true)]]);
        assert_eq!(deviation(&heads, &[("vary", "a"), ("vary", "b")]), "");
        assert_eq!(deviation(&heads, &[("vary", "a")]), "vary is missing, \"b\" is expected");
    }

    #[test]
    fn any_expected_head_is_accepted_and_the_nearest_is_named() {
        let heads = expected(&[PLAIN, &[("content-type", "text/plain", true), ("connection", "close", true)]]);
        assert_eq!(deviation(&heads, &[("content-type", "text/plain"), ("connection", "close")]), "");
        assert_eq!(
            deviation(&heads, &[("connection", "close")]),
            "content-type is missing, \"text/plain\" is expected"
        );
    }

    #[test]
    fn a_varying_value_must_not_shrink_much() {
        let long = "x".repeat(100);
        let heads = expected(&[&[("x-token", &long, false)]]);
        assert_eq!(deviation(&heads, &[("x-token", &long[..40])]), "");
        assert_eq!(deviation(&heads, &[("x-token", "")]), "its headers have 7 bytes, 107 are expected");
    }

    #[test]
    fn every_head_is_accepted_if_none_is_expected() {
        assert_eq!(deviation(&ExpectedHeads::default(), &[("x", "y")]), "");
    }
}
