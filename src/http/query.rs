//! The query of a URL: names and values, decoded; unknown names are refused, because a misspelt filter is a wrong answer.
//!
//! Pure. Never guesses: broken escapes and bytes that are no UTF-8 are errors.

use std::time::Duration;

use super::problem::{Code, Problem};
use crate::job::Timestamp;

/// Most parameters that one query may have.
pub const PARAMETERS_MAX: usize = 200;

/// The parameters of one call, in order.
#[derive(Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// `bad_request` for broken escapes or more than `PARAMETERS_MAX` parameters.
    pub fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = decode(name).zip(decode(value));
            pairs.push(decoded.ok_or_else(|| Problem::new(Code::BadRequest, "the query has a broken escape"))?);
            if pairs.len() > PARAMETERS_MAX {
                return Err(Problem::new(Code::BadRequest, format!("more than {PARAMETERS_MAX} parameters")));
            }
        }
        Ok(Self { pairs })
    }

    /// Goes on only if every name is one of these.
    ///
    /// # Errors
    /// A problem with this code that names the others.
    pub fn only(&self, code: Code, known: &[&str]) -> Result<(), Problem> {
        let strange = self.pairs.iter().find(|(name, _)| !known.contains(&name.as_str()));
        match strange {
            None => Ok(()),
            Some((name, _)) => {
                Err(Problem::of_field(code, name, format!("is unknown; there are {}", known.join(", "))))
            }
        }
    }

    /// Every value of a parameter that may be repeated.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// A problem with this code if it is there twice.
    pub fn one<'a>(&'a self, code: Code, name: &'a str) -> Result<Option<&'a str>, Problem> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            (_, Some(_)) => Err(Problem::of_field(code, name, "is there more than once")),
        }
    }

    /// The value of a parameter, read by `read`; `what` says what it had to be.
    ///
    /// # Errors
    /// A problem with this code if it is there twice or cannot be read.
    pub fn read<T>(
        &self,
        code: Code,
        name: &str,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.one(code, name)? else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(Problem::of_field(code, name, format!("must be {what}"))),
        }
    }
}

/// `true` or `false`.
pub fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// RFC 3339.
pub fn instant(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text)
}

/// `250ms`, `30s`, `5m`, `2h`, `7d`.
pub fn length(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let in_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(in_ms).map(Duration::from_millis)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(*rest.next()?)? * 16 + hex(*rest.next()?)?,
            plain => *plain,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Vec<(String, String)>, Code> {
        Query::parse(Some(query)).map(|query| query.pairs).map_err(|problem| problem.code)
    }

    #[test]
    fn names_and_values_are_decoded() {
        let pairs = parse("a=1&b=x%20y+z&&c&d=%E2%82%AC=").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x y z"), ("c", ""), ("d", "€=")]);
        assert!(Query::parse(None).unwrap().pairs.is_empty());
    }

    #[test]
    fn broken_escapes_and_too_many_parameters_are_refused() {
        for query in ["a=%", "a=%2", "a=%zz", "a=%ff", "%=1", "a=%e2%82", &"a&".repeat(PARAMETERS_MAX + 1)] {
            assert_eq!(parse(query), Err(Code::BadRequest), "{query}");
        }
    }

    #[test]
    fn unknown_and_doubled_names_are_refused_by_name() {
        let query = Query::parse(Some("limit=1&limit=2&x=1")).unwrap();
        let strange = query.only(Code::BadFilter, &["limit"]).unwrap_err();
        assert_eq!((strange.code, strange.errors[0].pointer.as_str()), (Code::BadFilter, "x"));
        assert_eq!(query.one(Code::BadFilter, "limit").unwrap_err().errors[0].pointer, "limit");
        assert_eq!(query.all("limit").collect::<Vec<_>>(), ["1", "2"]);
        let read = query.read(Code::BadFilter, "x", "true or false", flag);
        assert_eq!(read.unwrap_err().detail, "x: must be true or false");
    }

    #[test]
    fn lengths_have_a_unit() {
        assert_eq!(length("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(length("5m"), Some(Duration::from_secs(300)));
        for text in ["", "5", "s", "-1s", "1.5s", "5 s", "99999999999999999999s", "18446744073709551615d", "5S"] {
            assert_eq!(length(text), None, "{text}");
        }
    }
}
