//! The only place that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

/// A table that grows while it is measured: each row is printed as soon as it is known.
pub struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Prints title and heads. A column is as wide as its head.
    pub fn new(title: &str, heads: &[&str]) -> Self {
        println!("\n{title}\n");
        let table = Self { widths: heads.iter().map(|head| head.chars().count().max(9)).collect() };
        table.line(heads.iter().map(ToString::to_string));
        table.line(table.widths.iter().map(|width| "-".repeat(*width)));
        table
    }

    /// Prints one row.
    pub fn row<const N: usize>(&self, cells: [String; N]) {
        self.line(cells.into_iter());
    }

    fn line(&self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.zip(&self.widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("| {} |", cells.join(" | "));
    }
}

/// What all was measured on.
pub fn machine() {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!("{cores} cores, the load generator on the same ones; release build; every sync is real");
}

/// One line beside the tables.
pub fn note(text: &str) {
    println!("  {text}");
}

/// The address at which a bare server serves, for its parent.
pub fn address(address: std::net::SocketAddr) {
    println!("http://{address}");
}

/// What ended it.
pub fn failure(why: &str) {
    eprintln!("the benchmark failed: {why}");
}

/// A count with thousands apart.
pub fn count(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// With two decimals.
pub fn fine(figure: f64) -> String {
    format!("{figure:.2}")
}
