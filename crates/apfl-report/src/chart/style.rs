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

/// Sizes of type in pixels, by class.
const TYPE: [(&str, f64); 4] = [
    ("k-title", 15.0),
    ("k-head", 12.5),
    ("k-label", 11.0),
    ("k-tick", 10.0),
];

/// The size of the words of a class.
pub fn size_of_type(class: &str) -> f64 {
    let known = TYPE.iter().find(|(name, _)| *name == class);
    known.map_or(11.0, |(_, size)| *size)
}

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
    let type_of = |(class, size): (&str, f64)| {
        let colour = if class == "k-tick" { faint } else { ink };
        format!(".{class}{{font-size:{size}px;fill:{colour}}}")
    };
    let words = TYPE.map(type_of).concat();
    let mut css = format!(
        "text{{font-family:'DejaVu Sans',Verdana,sans-serif}}{words}\
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
