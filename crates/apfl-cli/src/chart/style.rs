//! Colours and type.

use std::fmt::Write;

/// How many colours there are; they repeat after that.
pub const COLOURS: usize = 8;

/// Okabe and Ito's palette, told apart by nearly every eye (Color Universal Design, 2008);
/// its yellow darkened to be seen on white, its black a grey.
const LIGHT: [&str; COLOURS] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#808080",
];

/// The same hues on a dark ground: blue, vermillion and green lighter, yellow as it was.
const DARK: [&str; COLOURS] = [
    "#4aa8e0", "#f07f2e", "#2bbf93", "#dd94bd", "#f0b43c", "#8fd0f7", "#f0e442", "#9a9a9a",
];

/// Rules for a chart that stands alone, on white.
pub fn alone() -> String {
    rules(|k| LIGHT[k].into(), "#222", "#666", "#e4e4e4")
}

/// Rules for a page, which follow the reader's light or dark. The page has the variables
/// `--ink`, `--faint` and `--grid`.
pub fn for_page() -> String {
    let variables = |colours: [&str; COLOURS]| {
        let each = colours.iter().enumerate();
        each.map(|(k, c)| format!("--c{k}:{c};"))
            .collect::<String>()
    };
    format!(
        ":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}\n\
         .chart{{max-width:100%;height:auto}}{}",
        variables(LIGHT),
        variables(DARK),
        rules(
            |k| format!("var(--c{k})"),
            "var(--ink)",
            "var(--faint)",
            "var(--grid)"
        )
    )
}

fn rules(colour: impl Fn(usize) -> String, ink: &str, faint: &str, grid: &str) -> String {
    let mut css = format!(
        "text{{font-family:'DejaVu Sans',Verdana,sans-serif}}\
         .k-title{{font-size:15px;fill:{ink}}}.k-head{{font-size:12.5px;fill:{ink}}}\
         .k-label{{font-size:11px;fill:{ink}}}.k-tick{{font-size:10px;fill:{faint}}}\
         .k-grid{{stroke:{grid};fill:none}}.k-axis{{stroke:{faint};fill:none}}\
         .k-line{{fill:none;stroke-width:1.6;stroke-linejoin:round}}\
         .k-dash{{stroke-dasharray:5 3}}.k-band{{fill-opacity:.16;stroke:none}}\
         .k-dot{{fill-opacity:.6;stroke:none}}.k-bar{{fill-opacity:.85;stroke:none}}\
         .k-strip{{fill:{faint};fill-opacity:0}}.k-strip:hover{{fill-opacity:.15}}\n"
    );
    for k in 0..COLOURS {
        let c = colour(k);
        write!(css, ".k-s{k}{{stroke:{c}}}.k-f{k}{{fill:{c}}}").expect("writing to memory");
    }
    css
}
