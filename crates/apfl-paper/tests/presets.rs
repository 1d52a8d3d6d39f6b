//! The specs of the figures and tables.

use std::fs;
use std::path::Path;

#[test]
fn every_preset_is_a_spec() {
    let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets");
    let mut names = Vec::new();
    for entry in fs::read_dir(presets).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let plan = apfl::spec::Spec::parse(&text).and_then(|spec| spec.plan());
        let plan = plan.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // The paper's rate: 0.1, falling by 1% a round. Three are of tables that others published.
        let rate = match name.as_str() {
            "fedrep" => 0.01,
            "pfllib" => 0.005,
            "heart" => 0.001,
            _ => 0.1,
        };
        assert_eq!(plan.local_training.learning_rate, rate, "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "fedrep", "fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "heart", "pfllib", "table1",
            "table2"
        ]
    );
}
