//! Effects of factors: their table, the tornado, interactions, and what a filter hides of them.

use super::*;
use crate::analysis::capitalised;

#[test]
fn effects_that_a_filter_hides_stay_in_the_family() {
    let runs = four();
    let family = |filter: &str| {
        let study =
            Study { filter: filter.to_owned(), measure: Some("step_time_s".into()), ..preset("effects").unwrap() };
        let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &study);
        let place = table.columns.iter().position(|column| column.key == "verdict").unwrap();
        let CellValue::Verdict(judged) = &table.rows[0].values[place] else { panic!("{table:?}") };
        (table.rows.len(), judged.family)
    };
    assert_eq!(family(""), (3, 3));
    assert_eq!(family("gpus = 1"), (1, 3));
}

#[test]
fn the_table_of_effects_has_effects_as_rows_each_with_its_verdict_and_words() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)], 3);
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("effects").unwrap());
    assert_eq!(table.rows.len(), 3, "two main effects and their interaction");
    let csv = render(&table, Format::Csv);
    let head = "effect,change,ratio_median,ratio_low,ratio_high,ratio_n,ratio_method,verdict,verdict_p,verdict_p_holm,\
                verdict_detectable,verdict_equal_within,verdict_reason,verdict_check,groups,words";
    assert_eq!(csv.lines().next(), Some(head));
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("Precision,fp16 over fp32,4.4") && first.contains(",3,range,faster,"), "{first}");
    assert!(first.contains("fp16 is 4.4") && first.contains(" times as fast as fp32"), "{first}");
    let json: serde_json::Value = serde_json::from_str(&render(&table, Format::Json)).unwrap();
    assert_eq!((&json["rows"][0]["verdict"]["verdict"], json["rows"][0].get("cell")), (&"faster".into(), None));
    assert!(table.notes.iter().any(|note| note.contains("with an interval over repeats")), "{:?}", table.notes);
}

#[test]
fn effects_that_a_design_does_not_tell_apart_are_named_together_in_table_and_figure() {
    let text = "version = 1\nrepeats = 2\n[factors]\nprecision = [\"fp32\", \"fp16\"]\npin_memory = [\"off\", \"on\"]\n\
                layout = [\"nchw\", \"nhwc\"]\n[design]\nkind = \"fraction\"\nruns = 4\n";
    let plan = crate::plan::Plan::parse(text, "p.toml").unwrap();
    let design = plan.first.design.clone().map(std::sync::Arc::new);
    let run = |asked: &crate::plan::AskedCell, repeat: u32| {
        let is_fast = asked.levels.get("precision") == Some(&Level::text("fp16"));
        let step_time_s = if is_fast { 0.005 } else { 0.01 };
        RunSummary { design: design.clone(), ..summarise_run(&fixture::run_of(asked, &plan, repeat, step_time_s)) }
    };
    let asked = crate::plan::asked_cells(&plan);
    let runs: Vec<RunSummary> = asked.iter().flat_map(|asked| [run(asked, 1), run(asked, 2)]).collect();
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &preset("effects").unwrap());
    assert_eq!(table.rows.len(), 3, "three main effects, and no interaction alone");
    let texts = |row: usize| -> Vec<String> {
        let text = |value: &CellValue| if let CellValue::Text(text) = value { Some(text.clone()) } else { None };
        table.rows[row].values.iter().filter_map(text).collect()
    };
    let [effect, change, words] = &texts(0)[..] else { panic!("{:?}", texts(0)) };
    assert_eq!(effect, "Precision + pin_memory × Layout");
    assert_eq!(change, "fp16 over fp32 + pin_memory × Layout");
    assert!(
        words.contains("if nothing of this is due to pin_memory × Layout: the design does not tell them apart"),
        "{words}"
    );
    assert!(table.notes.iter().any(|note| note.contains("fitted to the logarithms")), "{:?}", table.notes);
    let tornado = compared(&runs, &preset("tornado").unwrap());
    assert!(
        tornado.charts[0].x.categories.iter().all(|name| name.contains(" + ")),
        "{:?}",
        tornado.charts[0].x.categories
    );
}

#[test]
fn a_tornado_ranks_effects_with_interactions_and_interactions_are_lines() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05)], 3);
    let tornado = compared(&runs, &preset("tornado").unwrap());
    let names = &tornado.charts[0].x.categories;
    assert_eq!(names, &["fp16 over fp32", "2 GPUs over 1", "fp16 × 2 GPUs"]);
    let interactions = compared(&runs, &preset("interactions").unwrap());
    let chart = &interactions.charts[0];
    assert_eq!(
        (chart.title.as_str(), &chart.x.categories[..]),
        ("Precision × GPUs", &["fp32".into(), "fp16".into()][..])
    );
    let lines: Vec<(&str, usize)> = chart.series().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("1 GPU", 2), ("2 GPUs", 2)]);
    let asked = Study {
        rows: Place::Setting("gpus".into()),
        colour: Place::Setting("precision".into()),
        ..preset("interactions").unwrap()
    };
    assert_eq!(compared(&runs, &asked).charts[0].title, "GPUs × Precision");
}

#[test]
fn effects_without_a_common_repeat_are_named_in_tables_and_figures() {
    let times =
        [("fp32", 1, 0.4), ("fp16", 1, 0.2), ("fp32", 2, 0.3), ("fp16", 2, 0.15), ("fp32", 4, 0.2), ("fp16", 4, 0.1)];
    let mut runs = repeated(&times, 2);
    let lost = [("fp32-1-ddp-ds", 1), ("fp16-2-ddp-ds", 2)];
    runs.retain(|run| !lost.contains(&(run.cell.as_str(), run.repeat)));
    assert_eq!(runs.len(), 10);
    let without = |effects: &str| {
        format!(
            "Without a value, because no repeat has finished in all cells that the effect compares: {effects}; run the missing repeats"
        )
    };
    let both = "2 effects (fp16 over fp32, 2 GPUs over 1)";
    let all = "3 effects (fp16 over fp32, 2 GPUs over 1, fp16 over fp32 × 2 GPUs over 1)";
    let crossed = "1 effect (fp16 over fp32 × 2 GPUs over 1)";
    let table_of =
        |runs: &[RunSummary]| table(&[Source { session: "", runs, reports: &[] }], &preset("effects").unwrap());
    let some = table_of(&runs);
    assert_eq!(some.rows.len(), 2, "4 GPUs over 1, and its interaction");
    assert!(some.notes.iter().any(|note| capitalised(note) == without(all)), "{:?}", some.notes);
    for (id, effects) in [("effects", both), ("tornado", all), ("interactions", crossed)] {
        let notes = compared(&runs, &preset(id).unwrap()).charts[0].notes.clone();
        assert!(notes.contains(&(without(effects) + ".")), "{id}: {notes:?}");
    }
    // Nothing can be computed.
    runs.retain(|run| run.levels.get("gpus") != Some(&Level::Integer(4)));
    let none = table_of(&runs);
    assert!(none.rows.is_empty());
    assert!(none.notes.iter().any(|note| capitalised(note) == without(all)), "{:?}", none.notes);
}

#[test]
fn effects_that_are_not_comparable_are_rows_with_the_reason_and_notes_of_figures() {
    let times =
        [("fp32", 1, 0.4), ("fp16", 1, 0.2), ("fp32", 2, 0.3), ("fp16", 2, 0.15), ("fp32", 4, 0.2), ("fp16", 4, 0.1)];
    let mut runs = repeated(&times, 3);
    let spoilt = runs.iter_mut().find(|run| run.cell == "fp16-2-ddp-ds" && run.repeat == 2).unwrap();
    spoilt.values.insert("step_time_s".into(), 0.0);
    let study = |id: &str| Study { measure: Some("step_time_s".into()), ..preset(id).unwrap() };
    let table = table(&[Source { session: "", runs: &runs, reports: &[] }], &study("effects"));
    let changes = ["fp16 over fp32", "2 GPUs over 1", "fp16 over fp32 × 2 GPUs over 1"];
    let last = &table.rows[table.rows.len() - 3..];
    assert_eq!(table.rows.len(), 5);
    for (row, change) in last.iter().zip(changes) {
        let [_, CellValue::Text(name), CellValue::Missing, CellValue::Verdict(judged), _, CellValue::Missing] =
            &row.values[..]
        else {
            panic!("{row:?}")
        };
        assert_eq!(
            (name.as_str(), judged.to_string().as_str()),
            (change, "not comparable: ratios need values above 0")
        );
    }
    let advice = "compare a formula whose values are above 0, such as -log_likelihood (`multicard measure`)";
    let note = format!("not comparable in 3 rows: ratios need values above 0; {advice}");
    assert!(table.notes.contains(&note), "{:?}", table.notes);
    for (id, effects) in [
        ("effects", "2 effects (fp16 over fp32, 2 GPUs over 1)"),
        ("tornado", "3 effects (fp16 over fp32, 2 GPUs over 1, fp16 over fp32 × 2 GPUs over 1)"),
        ("interactions", "1 effect (fp16 over fp32 × 2 GPUs over 1)"),
    ] {
        let notes = compared(&runs, &study(id)).charts[0].notes.clone();
        let expected = format!("Without a value, because ratios need values above 0: {effects}; {advice}.");
        assert!(notes.contains(&expected), "{id}: {notes:?}");
    }
}

#[test]
fn in_a_chart_of_effects_no_two_factors_share_a_colour_since_none_has_one() {
    let runs = repeated(&[("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp64", 1, 0.9), ("fp64", 2, 0.5)], 3);
    for id in ["effects", "tornado"] {
        let shown = compared(&runs, &preset(id).unwrap());
        let looks: Vec<&Look> = shown.charts[0].series().map(|series| &series.look).collect();
        assert!(looks.len() > 1 && looks.iter().all(|look| **look == Look::Grey), "{id}: {looks:?}");
    }
}

#[test]
fn interactions_of_an_incomplete_grid_are_drawn_without_the_level_that_lacks_cells_and_name_it() {
    // The third level has no cell on two GPUs, and two complete pairs of levels remain.
    let times = [("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1), ("fp16", 2, 0.05), ("bf16", 1, 0.1)];
    let shown = compared(&repeated(&times, 3), &preset("interactions").unwrap());
    let chart = &shown.charts[0];
    assert_eq!(chart.x.categories, ["fp32", "fp16"]);
    let lines: Vec<(&str, usize)> = chart.series().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("1 GPU", 2), ("2 GPUs", 2)]);
    let expected = "Without bf16: cells for some levels of the other factor are missing.";
    assert!(chart.notes.iter().any(|note| note == expected), "{:?}", chart.notes);
}

#[test]
fn without_a_plot_of_interactions_a_note_says_which_cells_are_needed_and_what_to_do() {
    let times = [("fp32", 1, 0.4), ("fp32", 2, 0.25), ("fp16", 1, 0.1)];
    let shown = compared(&repeated(&times, 3), &preset("interactions").unwrap());
    assert!(shown.charts[0].is_empty());
    let note = &shown.charts[0].notes[0];
    assert!(note.contains("all four combinations of two levels") && note.contains("Run such cells"), "{note}");
}
