//! Rows of text under headings, in columns. It cuts nothing: what is in a row can be copied.

use crate::out::visible;
use std::fmt;

/// Columns with headings.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Adds a row; line ends in a cell become spaces.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        let one_line = |cell: String| visible(&cell).replace(['\n', '\t'], " ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// How many rows it has below its headings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() - 1
    }

    /// Whether it has headings only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let used = cell.chars().count();
                line.extend(std::iter::repeat_n(' ', width - used + 2));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["A", "NAME"]);
        table.push(["1".to_owned(), "ä\nb".to_owned()]);
        table.push(["long".to_owned(), String::new()]);
        assert_eq!(table.to_string(), "A     NAME\n1     ä b\nlong\n");
        assert_eq!(table.len(), 2);
    }
}
