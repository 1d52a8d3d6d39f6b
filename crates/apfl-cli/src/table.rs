//! Rows of words as Markdown and CSV; the first row is the head.

/// As a Markdown table.
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

/// As CSV.
pub fn csv(rows: &[Vec<String>]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("into memory");
    }
    writer.into_inner().expect("into memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_not_break_tables() {
        let rows = [
            vec!["a|b".to_string(), "c".into()],
            vec!["d".into(), "e,f".into()],
        ];
        assert_eq!(markdown(&rows), "| a\\|b | c |\n|---|---|\n| d | e,f |\n");
        assert_eq!(csv(&rows), b"a|b,c\nd,\"e,f\"\n");
    }
}
