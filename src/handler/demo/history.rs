//! Stage one: a purchase history as shops export it, made uniform.
//!
//! In: CSV text with whatever delimiter, quotes, decimal signs and dates it has. Out: purchases, each once, and every line that
//! could not be read with its reason. One bad line never takes its neighbours with it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use jiff::civil::Date;
use serde_json::{Value, json};

/// The history that is analysed when none is sent along.
pub const EMBEDDED: &str = include_str!("../../../data/demo/purchases.csv");

/// Longest history, in lines; a longer one is refused.
pub const LINES_MAX: usize = 200_000;

/// Lines that a quoted field may span. Beyond, the quote counts as one that was never closed.
const RECORD_LINES_MAX: usize = 8;

/// One purchase.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Purchase {
    /// The shop's number for it, if the export has one.
    pub order: String,
    /// When.
    pub date: Date,
    /// What.
    pub item: String,
    /// As the export names it, trimmed; possibly empty.
    pub category: String,
    /// How many.
    pub quantity: u32,
    /// The price of one.
    pub unit_cents: i64,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Not the header's columns, or a quote that is never closed.
    Columns,
    /// No such day.
    Date,
    /// Nothing was bought.
    Item,
    /// Not a whole number above 0.
    Quantity,
    /// No sum of money above 0.
    Price,
}

impl Fault {
    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Columns => "not the columns of the header",
            Self::Date => "no date that exists",
            Self::Item => "no item",
            Self::Quantity => "no quantity above 0",
            Self::Price => "no price above 0",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Date => "date",
            Self::Item => "item",
            Self::Quantity => "quantity",
            Self::Price => "price",
        }
    }
}

/// A line that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Its number in the text, from 1.
    pub line: usize,
    /// Why.
    pub fault: Fault,
}

/// A history, read.
#[derive(Debug, Default)]
pub struct History {
    /// Each purchase once, in the order of the text.
    pub purchases: Vec<Purchase>,
    /// Lines read: records without the header and without empty lines.
    pub lines: usize,
    /// Those that were left out.
    pub broken: Vec<Broken>,
    /// Those that said again what another had said.
    pub duplicates: usize,
}

impl History {
    /// Reads a history.
    ///
    /// # Errors
    /// Why there is nothing to analyse, for whoever sent it.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().collect();
        if lines.len() > LINES_MAX {
            return Err(format!("the purchase history has {} lines; at most {LINES_MAX} are read", lines.len()));
        }
        let Some(header) = lines.iter().position(|line| !line.trim().is_empty()) else {
            return Err("the purchase history is empty".into());
        };
        let columns = Columns::read(lines[header])?;
        let mut history = Self::default();
        let mut seen = HashSet::new();
        let mut at = header + 1;
        while at < lines.len() {
            if lines[at].trim().is_empty() {
                at += 1;
                continue;
            }
            let (fields, taken) = columns.record(&lines[at..]);
            history.lines += 1;
            match columns.purchase(&fields) {
                Err(fault) => history.broken.push(Broken { line: at + 1, fault }),
                Ok(purchase) if seen.contains(&purchase) => history.duplicates += 1,
                Ok(purchase) => {
                    seen.insert(purchase.clone());
                    history.purchases.push(purchase);
                }
            }
            at += taken;
        }
        if history.purchases.is_empty() { Err(history.why_empty()) } else { Ok(history) }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let Self { purchases, lines, broken, duplicates } = self;
        let (purchases, broken) = (purchases.len(), broken.len());
        format!("{purchases} purchases in {lines} lines ({duplicates} duplicates and {broken} broken lines left out)")
    }

    /// The counts, for the result.
    pub fn to_json(&self) -> Value {
        let faults: BTreeMap<_, _> =
            self.count_faults().into_iter().map(|(fault, count)| (fault.name(), count)).collect();
        json!({
            "lines": self.lines,
            "purchases": self.purchases.len(),
            "duplicates": self.duplicates,
            "broken": self.broken.len(),
            "brokenBy": faults,
        })
    }

    fn count_faults(&self) -> BTreeMap<Fault, usize> {
        let mut counts = BTreeMap::new();
        for broken in &self.broken {
            *counts.entry(broken.fault).or_default() += 1;
        }
        counts
    }

    fn why_empty(&self) -> String {
        if self.lines == 0 {
            return "the purchase history has a header and no lines".into();
        }
        let counts = self.count_faults();
        let faults: Vec<_> = counts.into_iter().map(|(fault, count)| format!("{count} × {}", fault.text())).collect();
        format!("none of the purchase history's {} lines can be used: {}", self.lines, faults.join(", "))
    }
}

/// Where the header puts what.
struct Columns {
    delimiter: u8,
    count: usize,
    order: Option<usize>,
    date: usize,
    item: usize,
    category: Option<usize>,
    quantity: Option<usize>,
    price: usize,
}

impl Columns {
    fn read(header: &str) -> Result<Self, String> {
        let count_of = |delimiter: &u8| header.bytes().filter(|byte| byte == delimiter).count();
        let delimiter = *[b';', b'\t', b','].iter().max_by_key(|d| count_of(d)).unwrap_or(&b',');
        let names: Vec<String> =
            split(header, delimiter).iter().map(|name| name.trim().to_lowercase().replace(['_', '-'], " ")).collect();
        let find = |known: &[&str]| known.iter().find_map(|name| names.iter().position(|n| n == name));
        let need = |what: &str, known: &[&str]| {
            let missing =
                || format!("the purchase history has no column for the {what} (such as {})", known.join(", "));
            find(known).ok_or_else(missing)
        };
        Ok(Self {
            delimiter,
            count: names.len(),
            order: find(&["order no", "order id", "order", "id", "bestellnummer"]),
            date: need("date", &["date", "order date", "purchase date", "datum"])?,
            item: need("item", &["item", "product", "name", "title", "artikel"])?,
            category: find(&["category", "department", "kategorie"]),
            quantity: find(&["quantity", "qty", "amount", "menge"]),
            price: need("price", &["price", "unit price", "cost", "preis"])?,
        })
    }

    /// The record that begins with the first of these lines, and how many lines it takes. Quoted line breaks are part of a
    /// field, if the quote is closed soon and the record then has the header's columns; else the first line stands alone.
    fn record(&self, lines: &[&str]) -> (Vec<String>, usize) {
        let mut text = Cow::Borrowed(lines[0]);
        let mut taken = 1;
        while has_open_quote(&text) && taken < RECORD_LINES_MAX.min(lines.len()) {
            text = Cow::Owned(format!("{text}\n{}", lines[taken]));
            taken += 1;
        }
        let fields = split(&text, self.delimiter);
        if taken == 1 || (!has_open_quote(&text) && self.fits(&fields)) {
            return (fields, taken);
        }
        (split(lines[0], self.delimiter), 1)
    }

    /// Every needed column is there, and nothing but emptiness behind the last.
    fn fits(&self, fields: &[String]) -> bool {
        let needed = self.date.max(self.item).max(self.price);
        fields.len() > needed && fields.iter().skip(self.count).all(|field| field.trim().is_empty())
    }

    fn purchase(&self, fields: &[String]) -> Result<Purchase, Fault> {
        if !self.fits(fields) {
            return Err(Fault::Columns);
        }
        let field = |at: usize| fields.get(at).map_or("", |field| field.trim());
        let optional = |at: Option<usize>| at.map_or("", field);
        let item = field(self.item);
        if item.is_empty() {
            return Err(Fault::Item);
        }
        let quantity = match self.quantity {
            None => 1,
            Some(at) => field(at).parse().ok().filter(|n| (1..=100_000).contains(n)).ok_or(Fault::Quantity)?,
        };
        Ok(Purchase {
            order: optional(self.order).into(),
            date: date(field(self.date)).ok_or(Fault::Date)?,
            item: item.into(),
            category: optional(self.category).into(),
            quantity,
            unit_cents: cents(field(self.price)).ok_or(Fault::Price)?,
        })
    }
}

fn has_open_quote(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'"').count() % 2 == 1
}

/// The fields of one record; none if it is more than one.
fn split(record: &str, delimiter: u8) -> Vec<String> {
    let mut builder = csv::ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(delimiter).buffer_capacity(record.len().clamp(64, 8 * 1024));
    let mut reader = builder.from_reader(record.as_bytes());
    let (mut fields, mut rest) = (csv::StringRecord::new(), csv::StringRecord::new());
    match (reader.read_record(&mut fields), reader.read_record(&mut rest)) {
        (Ok(true), Ok(false)) => fields.iter().map(str::to_owned).collect(),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => Vec::new(),
    }
}

/// A day: `2024-03-05`, `5.3.2024`, `05.03.24`, `05/03/2024`; a time of day behind it is ignored.
fn date(text: &str) -> Option<Date> {
    let day = text.split([' ', 'T']).next()?;
    let separator = ['-', '.', '/'].into_iter().find(|separator| day.contains(*separator))?;
    let numbers: Vec<i16> = day.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [first, month, last] = numbers[..] else { return None };
    let (year, day) = if separator == '-' { (first, last) } else { (last, first) };
    let year = if (0..100).contains(&year) { 2000 + year } else { year };
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok().filter(|date| date.year() >= 1970)
}

/// A sum of money above 0, in cents: `24,90`, `1.234,50 €`, `EUR 7.5`, `12`. The last separator is the decimal one if one or two
/// digits follow it; every other groups three digits.
pub fn cents(text: &str) -> Option<i64> {
    let is_currency = |c: char| c.is_whitespace() || matches!(c, '€' | '$' | '£');
    let bare =
        text.trim_matches(is_currency).trim_start_matches("EUR").trim_end_matches("EUR").trim_matches(is_currency);
    if bare.is_empty() || bare.len() > 18 || !bare.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',')) {
        return None;
    }
    let (whole, fraction) = match bare.rsplit_once(['.', ',']) {
        Some((whole, fraction)) if (1..=2).contains(&fraction.len()) => (whole, fraction),
        Some(_) | None => (bare, ""),
    };
    let mut groups = whole.split(['.', ',']);
    let mut digits = groups.next()?.to_owned();
    for group in groups {
        if group.len() != 3 || digits.is_empty() {
            return None;
        }
        digits.push_str(group);
    }
    let fraction: i64 = format!("{fraction:0<2}").parse().ok()?;
    let cents = digits.parse::<i64>().ok()?.checked_mul(100)?.checked_add(fraction)?;
    Some(cents).filter(|cents| *cents > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_as_people_write_it_or_not_at_all() {
        let good = [("24,90", 2490), ("1.234,50 €", 123_450), ("€ 7.5", 750), ("EUR 12", 1200), ("1,234", 123_400)];
        for (text, expected) in good {
            assert_eq!(cents(text), Some(expected), "{text}");
        }
        for text in ["", "free", "--", "1,2,3", "-5", "0,00", ",50,000", "1.23.4", "99999999999999999999", "€"] {
            assert_eq!(cents(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_exists_or_is_broken() {
        for text in ["2024-03-05", "05.03.2024", "5.3.24", "05/03/2024", "2024-03-05 14:07:00", "2024-03-05T00:00"] {
            assert_eq!(date(text), Date::new(2024, 3, 5).ok(), "{text}");
        }
        for text in ["2023-02-30", "31.04.2022", "n/a", "", "0000-00-00", "yesterday", "2022-13-01", "1-2", "a.b.c"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn a_broken_line_takes_no_neighbour_with_it() {
        let text = "date;item;price\n2024-01-01;\"never closed;1\n2024-01-02;lamp;2\n\n2024-01-03;\"two\nlines\";3\n\
                    torn off\n2024-01-04;28\" tube;4;;\n2024-01-04;28\" tube;4\n2024-01-05;extra;5;x\n";
        let history = History::read(text).expect("usable");
        let items: Vec<_> = history.purchases.iter().map(|purchase| purchase.item.as_str()).collect();
        assert_eq!(items, ["lamp", "two\nlines", "28\" tube"]);
        assert_eq!((history.lines, history.duplicates), (7, 1));
        let broken: Vec<_> = history.broken.iter().map(|broken| broken.line).collect();
        assert_eq!(broken, [2, 7, 10]);
    }

    #[test]
    fn a_history_without_usable_lines_says_why() {
        let why = |text: &str| History::read(text).expect_err("unusable");
        assert!(why(" \n\n").contains("is empty"));
        assert!(why("date,item,price\n").contains("no lines"));
        assert!(why("date,thing,price\n2024-01-01,a,1").contains("no column for the item"));
        let all_broken = why("date,item,price\n2024-02-30,a,1\n2024-01-01,b,free\n2024-01-01,c,\n");
        assert!(all_broken.contains("none of the purchase history's 3 lines"), "{all_broken}");
        assert!(all_broken.contains("1 × no date that exists, 2 × no price above 0"), "{all_broken}");
        assert!(why(&"\n".repeat(LINES_MAX + 1)).contains("at most"));
    }
}
