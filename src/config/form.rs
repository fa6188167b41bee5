//! How values are written: one `Form` per kind of value, the same in the file, the environment and a flag.
//!
//! In: a TOML value or a text. Out: the value, or nothing; the complaint about it is made where the place is known.

use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use toml::de::DeValue;

use crate::job::Millis;

/// A kind of value that a setting can have.
pub(super) trait Form: Sized {
    /// What a complaint calls the right form, such as "a duration such as 250ms, 10s, 5m, 1h or 7d".
    const EXPECTED: &'static str;
    /// The same for a list of them.
    const LIST: &'static str = "a list";

    /// Reads the text of a flag, an environment variable or a default.
    fn from_text(text: &str) -> Option<Self>;

    /// Reads what the file says; a text unless the kind has a form of its own in TOML.
    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        Self::from_text(value.as_str()?)
    }

    /// Whether it lies between the bounds of its setting, for kinds that have an order.
    fn is_between(&self, _least: &Self, _most: &Self) -> bool {
        true
    }
}

/// For kinds that have an order.
macro_rules! ordered {
    () => {
        fn is_between(&self, least: &Self, most: &Self) -> bool {
            least <= self && self <= most
        }
    };
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl Size {
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// For lengths in memory; what does not fit is the most that does.
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The units of a length of time in milliseconds, longest first.
const LENGTHS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The units of a size in bytes, largest first.
const SIZES: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// A whole number and its unit; nothing between them, nothing beyond what 64 bits hold.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// The shortest way to say a length: the largest unit that divides it.
pub fn show_length(length: Millis) -> String {
    if length.0 == 0 { "0s".to_owned() } else { in_units(length.0, &LENGTHS) }
}

/// The shortest way to say a size, likewise.
pub fn show_size(size: Size) -> String {
    in_units(size.0, &SIZES)
}

/// The length that a text says, such as `250ms`, `10s`, `5m`, `1h` or `7d`.
pub fn read_length(text: &str) -> Option<Millis> {
    Millis::from_text(text)
}

fn in_units(value: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, scale): &&(&str, u64)| value.is_multiple_of(*scale) && (value >= *scale || *scale == 1);
    let (name, scale) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    format!("{}{name}", value / scale)
}

impl Form for Millis {
    const EXPECTED: &'static str = "a duration such as 250ms, 10s, 5m, 1h or 7d";

    fn from_text(text: &str) -> Option<Self> {
        with_unit(text, &LENGTHS).map(Self)
    }

    ordered!();
}

impl Form for Size {
    const EXPECTED: &'static str = "a size such as 512KiB, 64MiB, 1GiB or a number of bytes";

    fn from_text(text: &str) -> Option<Self> {
        with_unit(text, &SIZES).map(Self)
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Integer(_) => whole(value).map(Self),
            DeValue::String(text) => Self::from_text(text),
            _ => None,
        }
    }

    ordered!();
}

/// A TOML integer that is not negative, in whichever base it was written.
fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

macro_rules! whole_numbers {
    ($($number:ty),*) => {$(
        impl Form for $number {
            const EXPECTED: &'static str = "a whole number";

            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn from_toml(value: &DeValue<'_>) -> Option<Self> {
                whole(value)?.try_into().ok()
            }

            ordered!();
        }
    )*};
}
whole_numbers!(u32, u64, usize);

impl Form for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Integer(integer) if integer.radix() == 10 => Self::from_text(integer.as_str()),
            DeValue::Float(float) => Self::from_text(float.as_str()),
            _ => None,
        }
    }

    ordered!();
}

impl Form for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl Form for String {
    const EXPECTED: &'static str = "a text";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned()).filter(|text| !text.is_empty())
    }
}

impl Form for PathBuf {
    const EXPECTED: &'static str = "a path";

    fn from_text(text: &str) -> Option<Self> {
        Some(text.into()).filter(|_| !text.is_empty() && !text.contains('\0'))
    }
}

impl Form for SocketAddr {
    const EXPECTED: &'static str = "an IP address and a port, such as 127.0.0.1:7450";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// `http://host` or `https://host:port`, nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin(pub String);

impl Form for Origin {
    const EXPECTED: &'static str = "an origin such as https://app.example.org, without a path";
    const LIST: &'static str = "a list of origins such as [\"https://app.example.org\"], without paths";

    fn from_text(text: &str) -> Option<Self> {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
        HostName::from_text(host).map(|_| Self(text.to_ascii_lowercase()))
    }
}

/// An absolute URL under which the server is reached from outside; kept without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicUrl(pub String);

impl PublicUrl {
    /// Its host, with the port if it names one.
    pub(super) fn host(&self) -> &str {
        let behind = self.0.split_once("://").map_or("", |(_, behind)| behind);
        behind.split('/').next().unwrap_or_default()
    }
}

impl Form for PublicUrl {
    const EXPECTED: &'static str = "a URL such as https://jobs.example.org, without a query";

    fn from_text(text: &str) -> Option<Self> {
        let url = Self(text.trim_end_matches('/').to_owned());
        let is_http = text.starts_with("http://") || text.starts_with("https://");
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\@".contains(&byte));
        HostName::from_text(url.host()).filter(|_| is_http && is_plain).map(|_| url)
    }
}

/// A host as a `Host` header has it, with or without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostName(pub String);

impl Form for HostName {
    const EXPECTED: &'static str = "a host name such as jobs.example.org or jobs.example.org:8080";
    const LIST: &'static str = "a list of host names such as [\"jobs.example.org\", \"10.0.0.7:7450\"]";

    fn from_text(text: &str) -> Option<Self> {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        Some(Self(text.to_ascii_lowercase())).filter(|_| !text.is_empty() && text.bytes().all(is_host))
    }
}

/// One argument of a command; may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Argument(pub String);

impl Form for Argument {
    const EXPECTED: &'static str = "a text";
    const LIST: &'static str = "a list of texts such as [\"sh\", \"-c\", \"date\"]";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned())).filter(|_| !text.contains('\0'))
    }
}

/// A media type such as `text/plain; charset=utf-8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MimeType(pub String);

impl Form for MimeType {
    const EXPECTED: &'static str = "a media type such as text/plain or application/json";

    fn from_text(text: &str) -> Option<Self> {
        let is_token = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let (essence, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        let (kind, sub) = essence.trim_end().split_once('/')?;
        let is_plain = rest.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        Some(Self(text.to_owned())).filter(|_| is_token(kind) && is_token(sub) && is_plain)
    }
}

/// Bytes as strict Base64, kept as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded(pub String);

impl Form for Encoded {
    const EXPECTED: &'static str = "Base64 of the standard alphabet, with padding";

    fn from_text(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok().map(|_| Self(text.to_owned()))
    }
}

/// What a process can exit with that is not success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitCode(pub u8);

impl Form for ExitCode {
    const EXPECTED: &'static str = "an exit code";
    const LIST: &'static str = "a list of exit codes from 1 to 255";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().filter(|code| *code > 0).map(Self)
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        u8::try_from(whole(value)?).ok().filter(|code| *code > 0).map(Self)
    }
}

/// Names and texts, in the order they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pairs(pub Vec<(String, String)>);

impl Form for Pairs {
    const EXPECTED: &'static str = "a table of texts such as { LANG = \"C\" }";

    /// Only the file has a form for it.
    fn from_text(_: &str) -> Option<Self> {
        None
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let pair = |name: &str, value: &DeValue<'_>| {
            let text = value.as_str().filter(|text| is_name(name) && !text.contains('\0'))?;
            Some((name.to_owned(), text.to_owned()))
        };
        let pairs = value.as_table()?.iter().map(|(name, value)| pair(name.get_ref(), value.get_ref()));
        pairs.collect::<Option<_>>().map(Self)
    }
}

impl<T: Form> Form for Vec<T> {
    const EXPECTED: &'static str = T::LIST;

    /// Items apart by commas; an empty text is an empty list.
    fn from_text(text: &str) -> Option<Self> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(T::from_text).collect()
    }

    fn from_toml(value: &DeValue<'_>) -> Option<Self> {
        value.as_array()?.iter().map(|item| T::from_toml(item.get_ref())).collect()
    }
}

/// A closed choice: each word beside its value.
macro_rules! choice {
    ($kind:ty, $expected:literal, $($word:literal => $value:expr),+ $(,)?) => {
        impl $crate::config::form::Form for $kind {
            const EXPECTED: &'static str = $expected;
            const LIST: &'static str = concat!("a list of: ", $expected);

            fn from_text(text: &str) -> Option<Self> {
                [$(($word, $value)),+].into_iter().find(|(word, _)| *word == text).map(|(_, value)| value)
            }
        }
    };
}
pub(super) use choice;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit_and_nothing_else() {
        let good =
            [("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000), ("0s", 0)];
        for (text, millis) in good {
            assert_eq!(Millis::from_text(text), Some(Millis(millis)), "{text}");
        }
        for text in ["", "s", "10", "10 s", "-1s", "+1s", "1.5s", "1S", "1sec", "s10", "1s1", "213503982335d", "٣s"] {
            assert_eq!(Millis::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        let good = [("0", 0), ("1048576", 1 << 20), ("512KiB", 1 << 19), ("64MiB", 64 << 20), ("1GiB", 1 << 30)];
        for (text, bytes) in good {
            assert_eq!(Size::from_text(text), Some(Size(bytes)), "{text}");
        }
        for text in ["", "MiB", "64MB", "64M", "64 MiB", "-1", "1.5GiB", "16777216TiB"] {
            assert_eq!(Size::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn media_types_and_base64_are_checked_as_written() {
        for text in ["text/plain", "application/ld+json", "text/html; charset=utf-8", "image/svg+xml"] {
            assert_eq!(MimeType::from_text(text), Some(MimeType(text.to_owned())));
        }
        for text in ["", "text", "text/", "/plain", "text/pl ain", "text/a/b", "text/plain;\n"] {
            assert_eq!(MimeType::from_text(text), None, "{text}");
        }
        for (text, fits) in [("", true), ("aGk=", true), ("aGk", false), ("a-_=", false), ("aG k=", false)] {
            assert_eq!(Encoded::from_text(text).is_some(), fits, "{text}");
        }
    }

    #[test]
    fn addresses_that_lead_outside_are_plain() {
        for text in ["https://jobs.example.org", "http://10.0.0.7:8080/longhaul/", "http://[::1]:7450"] {
            assert!(PublicUrl::from_text(text).is_some(), "{text}");
        }
        for text in
            ["jobs.example.org", "ftp://a", "https://", "https://a?b", "https://a#b", "https://u@a", "http://a b"]
        {
            assert!(PublicUrl::from_text(text).is_none(), "{text}");
        }
        assert_eq!(Origin::from_text("https://App.example.org"), Some(Origin("https://app.example.org".to_owned())));
        assert_eq!(Origin::from_text("https://app.example.org/"), None);
        assert_eq!(Origin::from_text("null"), None);
    }

    proptest! {
        #[test]
        fn a_duration_is_read_back_as_it_was_shown(millis: u64) {
            prop_assert_eq!(Millis::from_text(&show_length(Millis(millis))), Some(Millis(millis)));
        }

        #[test]
        fn a_size_is_read_back_as_it_was_shown(bytes: u64) {
            prop_assert_eq!(Size::from_text(&show_size(Size(bytes))), Some(Size(bytes)));
        }

        #[test]
        fn whole_units_are_exact_or_refused(number: u64, unit in 0..5usize) {
            let (name, scale) = LENGTHS[unit];
            let expected = number.checked_mul(scale).map(Millis);
            prop_assert_eq!(Millis::from_text(&format!("{number}{name}")), expected);
        }

        #[test]
        fn no_text_makes_a_form_panic(text: String) {
            let _ = (Millis::from_text(&text), Size::from_text(&text), PublicUrl::from_text(&text));
            let _ = (Origin::from_text(&text), SocketAddr::from_text(&text), f64::from_text(&text));
        }
    }
}
