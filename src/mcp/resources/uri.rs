//! URIs: which job one means, and the configured templates that one may fit.
//!
//! In: a URI as written. Out: what it names, or nothing. Whether that exists, and for whom, is asked elsewhere.

use std::str::FromStr;

use crate::job::JobId;

/// Longest URI that is looked at, in bytes; nothing has a longer one.
pub const URI_MAX: usize = 2_048;

/// What of a job a URI means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Part {
    /// `job://{id}`: the job as `get_job` shows it.
    Job,
    /// `job://{id}/result`.
    Result,
}

impl Part {
    /// Every part.
    pub(in crate::mcp) const ALL: [Self; 2] = [Self::Job, Self::Result];

    /// Its URI template.
    pub(in crate::mcp) const fn template(self) -> &'static str {
        match self {
            Self::Job => "job://{id}",
            Self::Result => "job://{id}/result",
        }
    }
}

/// The job that a URI means; `None` if it is no job's. Only the one way to write an id is understood.
pub(in crate::mcp) fn job(uri: &str) -> Option<(JobId, Part)> {
    let inside = uri.strip_prefix("job://")?;
    let (id, part) = match inside.strip_suffix("/result") {
        Some(id) => (id, Part::Result),
        None => (inside, Part::Job),
    };
    JobId::from_str(id).ok().map(|id| (id, part))
}

/// Whether this can be the URI of a configured resource: a scheme, a colon and visible ASCII behind it; `job:` and `ui:` are taken.
pub fn is_free(uri: &str) -> bool {
    let is_rest = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic());
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let is_taken = |scheme: &str| ["job", "ui"].iter().any(|taken| scheme.eq_ignore_ascii_case(taken));
    uri.len() <= URI_MAX
        && uri.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !is_taken(scheme) && is_rest(rest))
}

/// Whether this can stand where a message has a URI: a scheme, and behind it only what RFC 3986 lets stand there.
pub(in crate::mcp) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_escape = |after: &[u8]| after.get(..2).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    let is_fit = |(at, byte): (usize, u8)| match byte {
        b'%' => is_escape(&rest.as_bytes()[at + 1..]),
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => false,
        _ => byte.is_ascii_graphic(),
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && rest.bytes().enumerate().all(is_fit)
}

/// A URI template of RFC 6570's level 1 whose variables are whole path segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Plain(String),
    Variable(String),
}

impl Pattern {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it, for whoever wrote it.
    pub fn new(template: &str) -> Result<Self, String> {
        let mut pattern = Self { segments: Vec::new() };
        for segment in template.split('/') {
            let variable = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            match variable {
                Some(name) if !is_name(name) => {
                    return Err(format!("{{{name}}}: a variable is called by letters, digits and _ only"));
                }
                Some(name) if pattern.names().any(|other| other == name) => {
                    return Err(format!("{{{name}}} is there twice"));
                }
                Some(name) => pattern.segments.push(Segment::Variable(name.to_owned())),
                None if segment.contains(['{', '}']) => {
                    return Err(format!(
                        "{segment:?}: a variable is a whole path segment, such as test://item/{{id}}/data"
                    ));
                }
                None => pattern.segments.push(Segment::Plain(segment.to_owned())),
            }
        }
        Ok(pattern)
    }

    /// Its variables, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Variable(name) => Some(name.as_str()),
            Segment::Plain(_) => None,
        })
    }

    /// The values of the variables in this URI, decoded; `None` if it does not fit.
    pub(in crate::mcp) fn read(&self, uri: &str) -> Option<Vec<String>> {
        let mut values = Vec::new();
        let mut found = uri.split('/');
        for segment in &self.segments {
            let text = found.next()?;
            match segment {
                Segment::Plain(plain) if plain == text => {}
                Segment::Plain(_) => return None,
                Segment::Variable(_) => values.push(decoded(text)?),
            }
        }
        found.next().is_none().then_some(values)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A value without its percent encoding: at least one character, and text.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = std::str::from_utf8(behind.get(..2)?).ok()?;
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(hex, 16).ok().filter(|_| is_hex)?);
        rest = &behind[2..];
    }
    String::from_utf8(bytes).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_s_uri_is_written_in_one_way() {
        let id = "0190b5a0-0000-7000-8000-00000000abcd";
        assert_eq!(job(&format!("job://{id}")).map(|(id, part)| (id.to_string(), part)), Some((id.into(), Part::Job)));
        assert_eq!(job(&format!("job://{id}/result")).map(|(_, part)| part), Some(Part::Result));
        for part in Part::ALL {
            assert_eq!(job(&part.template().replace("{id}", id)).map(|(_, part)| part), Some(part));
        }
        for other in [
            String::new(),
            "job://".into(),
            id.into(),
            format!("job:{id}"),
            format!("JOB://{id}"),
            format!("job://{}", id.to_uppercase()),
            format!("job://{id}/"),
            format!("job://{id}/result/"),
            format!("job://{id}/log"),
            format!("job://{id}?a"),
            format!("job://{}", id.replace('-', "")),
        ] {
            assert_eq!(job(&other), None, "{other}");
        }
    }

    #[test]
    fn a_variable_is_one_path_segment() {
        let pattern = Pattern::new("test://template/{id}/data").expect("a template");
        let read = |uri: &str| pattern.read(uri).map(|values| values.concat());
        assert_eq!(read("test://template/123/data").as_deref(), Some("123"));
        assert_eq!(read("test://template/a%20b%2Fc%E8%AA%9E/data").as_deref(), Some("a b/c語"));
        for other in [
            "test://template//data",
            "test://template/1/2/data",
            "test://template/1/data/",
            "test://template/1",
            "test://Template/1/data",
            "test://template/%/data",
            "test://template/%4/data",
            "test://template/%+4/data",
            "test://template/%ff/data",
            "",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        let two =
            Pattern::new("x:{a}").expect_err("no whole segment") + &Pattern::new("x://{a}/{a}").expect_err("twice");
        assert!(two.contains("whole path segment") && two.contains("twice"), "{two}");
        for bad in ["x://{}", "x://{+a}", "x://{a", "x://a}", "x://{a}{b}", "x://{a-b}"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn schemes_of_longhaul_s_own_are_taken() {
        for free in ["test://static-text", "file:///a", "urn:a", "jobs://x", "https://example.org/a?b#c"] {
            assert!(is_free(free), "{free}");
        }
        for taken in ["job://x", "JOB:x", "ui://x", "", "x", ":x", "x:", "1x:a", "a b:c", "x:a b", "x:語"] {
            assert!(!is_free(taken), "{taken}");
        }
        assert!(!is_free(&format!("x:{}", "a".repeat(URI_MAX))));
    }
}
