//! Header values as they are compared: trimmed, and one per name.
//!
//! In: what the transport kept. Out: a value, or the list that RFC 9110 makes of several. Judges nothing.

use std::borrow::Cow;

/// The headers of a request, as the transport keeps them.
pub trait Headers: Send + Sync {
    /// Shows every value of the header with this lower-case name to `see`, in order.
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8]));
}

/// The one value of a header, without the space around it. The same value sent twice is one; several that differ are joined
/// by `, `, which equals none of the values that this endpoint knows.
pub(super) fn value<'a>(headers: &'a dyn Headers, name: &str) -> Option<Cow<'a, [u8]>> {
    let mut found: Option<Cow<'a, [u8]>> = None;
    headers.each(name, &mut |bytes| {
        let bytes = bytes.trim_ascii();
        match &mut found {
            None => found = Some(Cow::Borrowed(bytes)),
            Some(same) if **same == *bytes => {}
            Some(other) => {
                let list = other.to_mut();
                list.extend_from_slice(b", ");
                list.extend_from_slice(bytes);
            }
        }
    });
    found
}

/// As `value`, for headers that are text; bytes that are no UTF-8 become U+FFFD, which matches nothing either.
pub(super) fn text<'a>(headers: &'a dyn Headers, name: &str) -> Option<Cow<'a, str>> {
    value(headers, name).map(|found| match found {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

#[cfg(test)]
pub(super) mod fake {
    /// Headers in a list, for tests.
    pub struct List<'a>(pub &'a [(&'a str, &'a [u8])]);

    impl super::Headers for List<'_> {
        fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
            self.0.iter().filter(|(n, _)| *n == name).for_each(|(_, value)| see(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fake::List, text};

    #[test]
    fn a_header_sent_twice_is_one_value_only_if_both_agree() {
        let check = |values: &[&[u8]], expected: Option<&str>| {
            let list: Vec<_> = values.iter().map(|v| ("x", *v)).collect();
            assert_eq!(text(&List(&list), "x").as_deref(), expected);
        };
        check(&[], None);
        check(&[b" \t v \t"], Some("v"));
        check(&[b"v", b" v"], Some("v"));
        check(&[b"v", b"w"], Some("v, w"));
        check(&[b""], Some(""));
        check(&[b"\xff"], Some("\u{fffd}"));
    }
}
