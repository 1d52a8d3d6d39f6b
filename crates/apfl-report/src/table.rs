//! Tables as Markdown, CSV and columns of text; the first row is the header.

/// Formats rows as a Markdown table.
pub fn markdown(rows: &[Vec<String>]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('\n', " ");
    let mut text = String::new();
    for (k, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(cell).collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if k == 0 {
            text += &format!("|{}\n", "---|".repeat(row.len()));
        }
    }
    text
}

/// Formats rows as CSV.
pub fn csv(rows: &[Vec<String>]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("writing to memory");
    }
    writer.into_inner().expect("writing to memory")
}

/// Formats rows as aligned columns: the first to the left, the others to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| {
        let cells = rows.iter().filter_map(|row| row.get(k));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cell = |(k, cell): (usize, &String)| match k {
            0 => format!("{cell:<width$}", width = widths[0]),
            k => format!("{cell:>width$}", width = widths[k]),
        };
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_string(), "1".into()],
            vec!["bcd".into(), "23".into()],
        ];
        assert_eq!(columns(&rows), "a     1\nbcd  23\n");
    }

    #[test]
    fn special_characters_do_not_break_tables() {
        let rows = [
            vec!["a|b".to_string(), "c".into()],
            vec!["d".into(), "e,f".into()],
        ];
        assert_eq!(markdown(&rows), "| a\\|b | c |\n|---|---|\n| d | e,f |\n");
        assert_eq!(csv(&rows), b"a|b,c\nd,\"e,f\"\n");
    }
}
