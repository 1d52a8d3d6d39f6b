//! Colours and font sizes.

use std::fmt::Write;

/// The number of colours; they repeat after that.
pub const COLOURS: usize = 8;

/// Okabe and Ito's colour-blind safe palette (Color Universal Design, 2008), with yellow darkened
/// for white paper and grey instead of black.
const LIGHT: [&str; COLOURS] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a7a00", "#808080",
];

/// The same hues for a dark background: blue, vermillion and green lighter, the original yellow.
const DARK: [&str; COLOURS] = [
    "#4aa8e0", "#f07f2e", "#2bbf93", "#dd94bd", "#f0b43c", "#8fd0f7", "#f0e442", "#9a9a9a",
];

/// Font sizes in pixels, by class.
const FONT_SIZES: [(&str, f64); 4] = [
    ("k-title", 15.0),
    ("k-head", 12.5),
    ("k-label", 11.0),
    ("k-tick", 10.0),
];

/// Returns the font size of a class.
pub fn font_size(class: &str) -> f64 {
    let known = FONT_SIZES.iter().find(|(name, _)| *name == class);
    known.map_or(11.0, |(_, size)| *size)
}

/// Returns the style sheet of a self-contained chart on white.
pub fn for_file() -> String {
    rules(|k| LIGHT[k].into(), "#222", "#666", "#e4e4e4")
}

/// Returns the style sheet of a page in light or dark, which defines the variables `--ink`,
/// `--faint` and `--grid`.
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
    let font = |(class, size): (&str, f64)| {
        let colour = if class == "k-tick" { faint } else { ink };
        format!(".{class}{{font-size:{size}px;fill:{colour}}}")
    };
    let fonts = FONT_SIZES.map(font).concat();
    let mut css = format!(
        "text{{font-family:'DejaVu Sans',Verdana,sans-serif}}{fonts}\
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
