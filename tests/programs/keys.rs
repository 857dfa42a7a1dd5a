//! Factors of programs whose keys are those of settings of tables.

use super::*;

#[test]
fn factors_that_are_called_like_settings_have_their_levels_in_tables_and_filters() {
    for key in ["cell", "session", "made_with"] {
        let scene = Scene::new();
        scene.finish(&format!(
            "repeats = 1\n[command]\nrun = [\"true\", \"{{{key}}}\"]\n[factors]\n{key} = [\"lstm\", \"gru\"]\n"
        ));
        let levels = |more: &[&str]| -> Vec<String> {
            let table = scene.table(more);
            let keys: Vec<&Value> = table["columns"].as_array().unwrap().iter().map(|column| &column["key"]).collect();
            assert!(!keys.iter().any(|key| key.as_str().unwrap().starts_with("setting_")), "{keys:?}");
            let rows = table["rows"].as_array().unwrap();
            rows.iter().map(|row| row["levels"][key].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(levels(&[]), ["lstm", "gru"], "{key}");
        assert_eq!(levels(&["--filter", &format!("{key}=lstm")]), ["lstm"], "{key}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_multicard"));
        let shown = succeed(command.arg("table").arg(scene.session()));
        let text = text(&shown.stdout);
        let is_of_lstm = |line: &str| line.trim_start_matches(['|', ' ']).starts_with("lstm");
        assert!(text.lines().any(is_of_lstm), "{key}: {text}");
    }
}
