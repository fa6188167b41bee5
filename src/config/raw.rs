//! What was written, with where: the file's tables with their spans, the environment, the flags.
//!
//! In: text. Out: values of the right form, or complaints that name line and key. What is true is decided elsewhere.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::complaint::{Complaints, nearest};
use super::form::Form;
use super::setting::{Row, Setting};
use crate::job::cut;

/// A configuration file that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct File {
    /// As complaints call it.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// "line 4 of longhaul.toml".
    pub(super) fn place(&self, span: &Range<usize>) -> String {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        format!("line {} of {}", before.iter().filter(|byte| **byte == b'\n').count() + 1, self.name)
    }

    /// What stands there, cut to what fits a message.
    fn excerpt(&self, span: &Range<usize>) -> String {
        const EXCERPT_MAX: usize = 60;
        let text = self.text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
        let cut = cut(text, EXCERPT_MAX);
        if cut.len() < text.len() { format!("{cut}…") } else { cut.to_owned() }
    }
}

/// A value from outside the file, which wins over it.
#[derive(Debug)]
pub(super) struct Override {
    pub(super) key: &'static str,
    pub(super) text: String,
    pub(super) place: String,
}

/// One table of the file, and what overrides it.
pub(super) struct Section<'a> {
    pub(super) file: &'a File,
    /// Dotted path of the table; empty for the whole file.
    pub(super) path: String,
    /// Where it begins, for complaints about what is missing.
    pub(super) place: String,
    pub(super) table: &'a DeTable<'a>,
    pub(super) overrides: &'a [Override],
}

impl<'a> Section<'a> {
    /// The key as the file's reader would say it.
    pub(super) fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// What the file has at a dotted key.
    pub(super) fn find(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut parts = key.split('.');
        let first = self.table.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get_ref().as_table()?.get(part))
    }

    /// The setting's value: the override, else the file's, else the default. What cannot be read is complained about.
    pub(super) fn take<T: Form>(&self, setting: &Setting<T>, complaints: &mut Complaints) -> Option<T> {
        let row = &setting.row;
        let (written, place, value) = if let Some(over) = self.overrides.iter().rfind(|over| over.key == row.key) {
            (format!("{:?}", over.text), over.place.clone(), T::from_text(&over.text))
        } else if let Some(value) = self.find(row.key) {
            let span = value.span();
            (self.file.excerpt(&span), self.file.place(&span), T::from_toml(value.get_ref()))
        } else {
            return setting.default();
        };
        let value = value.filter(|value| setting.admits(value));
        if value.is_none() {
            complaints.add(format!("{} = {written}", self.full(row.key)), &place, row.expected());
        }
        value.or_else(|| setting.default())
    }

    /// The setting's value, which there must be.
    pub(super) fn need<T: Form>(&self, setting: &Setting<T>, complaints: &mut Complaints) -> Option<T> {
        if !self.is_written(setting.row.key) {
            let message = format!("is missing: {}", setting.row.help);
            complaints.add(self.full(setting.row.key), &self.place, message);
        }
        self.take(setting, complaints)
    }

    /// Whether somebody has set it, well or badly.
    pub(super) fn is_written(&self, key: &str) -> bool {
        self.overrides.iter().any(|over| over.key == key) || self.find(key).is_some()
    }

    /// The table under a key, if there is something; complains if that is no table.
    pub(super) fn inner(&self, key: &str, complaints: &mut Complaints) -> Option<Section<'a>> {
        self.item(key, self.find(key)?, complaints)
    }

    /// A value that must be a table, called `key`.
    pub(super) fn item(
        &self,
        key: &str,
        value: &'a Spanned<DeValue<'a>>,
        complaints: &mut Complaints,
    ) -> Option<Section<'a>> {
        let (path, place) = (self.full(key), self.file.place(&value.span()));
        let Some(table) = value.get_ref().as_table() else {
            complaints.add(path, &place, "expected a table");
            return None;
        };
        Some(Section { file: self.file, path, place, table, overrides: &[] })
    }

    /// Complains about a value that was read and makes no sense.
    pub(super) fn refuse(&self, key: &str, complaints: &mut Complaints, message: impl Into<String>) {
        let over = self.overrides.iter().rfind(|over| over.key == key).map(|over| over.place.clone());
        let found = || self.find(key).map(|value| self.file.place(&value.span()));
        let place = over.or_else(found).unwrap_or_else(|| self.place.clone());
        complaints.add(self.full(key), &place, message);
    }

    /// Complains about every key that is none of the rows, nor one of `others`, and names the nearest that is.
    pub(super) fn check_keys(&self, tables: &[&[Row]], others: &[&str], complaints: &mut Complaints) {
        let rows = tables.iter().flat_map(|rows| rows.iter().map(|row| row.key));
        let known: Vec<&str> = rows.chain(others.iter().copied()).collect();
        self.check_table(self.table, "", &known, complaints);
    }

    fn check_table(&self, table: &DeTable<'_>, prefix: &str, known: &[&str], complaints: &mut Complaints) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            if known.contains(&key.as_str()) {
                continue;
            }
            let place = self.file.place(&name.span());
            let group = format!("{key}.");
            match value.get_ref().as_table() {
                _ if !known.iter().any(|known| known.starts_with(&group)) => {
                    let all = known.iter().flat_map(|known| [*known, known.split('.').next().unwrap_or(known)]);
                    let meant = nearest(&key, all).map(|meant| format!("; did you mean `{}`?", self.full(meant)));
                    let message = format!("no such setting{}", meant.unwrap_or_default());
                    complaints.add(self.full(&key), &place, message);
                }
                Some(inner) => self.check_table(inner, &group, known, complaints),
                None => complaints.add(self.full(&key), &place, format!("expected a table `[{}]`", self.full(&key))),
            }
        }
    }
}

/// A TOML value as JSON; `None` if it holds what JSON has not: a date, an infinite number.
pub(super) fn to_json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok()?.into(),
        DeValue::Float(float) => serde_json::Number::from_f64(float.as_str().parse().ok()?)?.into(),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect::<Option<Vec<_>>>()?.into(),
        DeValue::Table(table) => {
            let field = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                to_json(value.get_ref()).map(|value| (name.to_string(), value))
            };
            table.iter().map(field).collect::<Option<serde_json::Map<_, _>>>()?.into()
        }
        DeValue::Datetime(_) => return None,
    })
}
