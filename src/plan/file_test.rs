//! Plan files: what is read, what is refused and with which words, and what saving keeps.

use super::*;
use crate::plan::fixture::{cpu_node, gpu_node, small_plan};
use crate::plan::image::DataSet;
use crate::plan::{Capture, Margin, Tracer, expand, image, order};

const FULL: &str = r#"
version = 1
name = "precision and layout"
workload = "image"
repeats = 3
seed = 7
order = "sequential"
[limits]
run_time_s = 3600
exclusive = false
memory_limit_gb = 94
[measure]
warm_up_steps = 20
[data]
set = "mnist"
folder = "mnist"
train_images = 10000
test_images = 2000
[factors]
precision = ["fp32", "fp16"]
layout = ["nchw", "nhwc"]
image_size = 300
learning_rate = [1, 0.5]
"#;

fn messages(text: &str) -> Vec<String> {
    match Plan::parse(text, "my.toml") {
        Err(PlanError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{text}\nshould be refused, found {other:?}"),
    }
}

/// The one message that a plan with this body is refused with.
#[track_caller]
fn message(body: &str) -> String {
    let found = messages(&format!("version = 1\n{body}"));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn a_full_plan_is_read() {
    let plan = Plan::parse(FULL, "my.toml").unwrap();
    assert_eq!((plan.name.as_str(), plan.repeats, plan.seed), ("precision and layout", 3, 7));
    assert_eq!((plan.order, plan.warm_up_steps), (Order::Sequential, 20));
    assert_eq!(plan.limits, Limits { run_time_s: Some(3600.0), memory_limit_gb: Some(94.0), exclusive: false });
    assert_eq!(plan.limits.memory_limit_bytes(), Some(94_000_000_000));
    assert_eq!(plan.first.data, DataSet::Mnist { folder: Some("mnist".into()) }.into());
    assert_eq!(plan.first.levels("precision"), [Level::text("fp32"), Level::text("fp16")]);
    assert_eq!(plan.first.levels("image_size"), [Level::Integer(300)]);
    assert_eq!(plan.first.levels("train_images"), [Level::Integer(10_000)]);
    assert!(matches!(plan.first.levels("learning_rate"), [Level::Number(_), Level::Number(_)]));
    assert_eq!(plan.first.levels("pin_memory"), [Level::text("off")]);
    assert_eq!(plan.varied(), ["precision", "layout", "learning_rate"]);
    let keys: Vec<&Key> = plan.first.factors.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, image::spec().factors.iter().map(|factor| &factor.key).collect::<Vec<_>>());
}

#[test]
fn runs_have_the_machine_to_themselves_unless_the_plan_says_otherwise() {
    let exclusive = |body: &str| Plan::parse(&format!("version = 1\n{body}"), "my.toml").unwrap().limits.exclusive;
    assert!(exclusive("") && exclusive("[limits]\nrun_time_s = 5") && exclusive("[limits]\nexclusive = true"));
    assert!(!exclusive("[limits]\nexclusive = false"));
    let text = message("[limits]\nexclusive = \"off\"");
    assert!(text.contains("limits.exclusive") && text.contains("must be true or false, not a string"), "{text}");
}

#[test]
fn a_plan_that_says_nothing_is_one_cell_of_defaults() {
    let plan = Plan::parse("version = 1", "folder/my plan.toml").unwrap();
    assert_eq!(plan, Plan::new("my plan", image::spec()));
    assert_eq!(expand(&plan, &cpu_node()).cells.len(), 1);
}

#[test]
fn the_version_is_required_and_checked() {
    assert!(messages("name = \"a\"")[0].contains("a plan starts with version = 1"));
    let newer = messages("version = 2\nunheard_of = 1");
    assert_eq!(newer, ["my.toml:1: version: version 2 is newer than this multicard's 1: use a newer one"]);
    assert!(messages("version = \"1\"")[0].contains("write version = 1"));
}

#[test]
fn misspelt_names_are_told_with_file_line_and_the_nearest_right_one() {
    assert_eq!(message("repeat = 3"), "my.toml:2: repeat: unknown key; did you mean \"repeats\"?");
    assert_eq!(
        message("[factors]\nprecison = \"fp32\""),
        "my.toml:3: factors.precison: unknown key; did you mean \"precision\"?"
    );
    assert_eq!(
        message("[factors]\n\nprecision = [\n\"fp32\",\n\"FP16\"]"),
        "my.toml:6: factors.precision: unknown level \"FP16\"; did you mean \"fp16\"?"
    );
    assert!(message("[factors]\nstrategy = \"horovod\"").contains("there are ddp-ds, single, dp, ddp, ddp-rr"));
    assert!(message("order = \"random\"").contains("there are interleaved, sequential"));
    assert!(message("[limits]\nruntime_s = 3").contains("did you mean \"run_time_s\"?"));
    assert!(message("[measure]\nwarmup_steps = 3").contains("did you mean \"warm_up_steps\"?"));
    assert!(message("[data]\nset = \"minst\"").contains("did you mean \"mnist\"?"));
    assert!(message("layout = \"nhwc\"").contains("belongs in [factors]"));
}

#[test]
fn a_misspelt_table_is_named_instead_of_the_placeholders_that_miss_its_factors() {
    let plan = "[factor]\nlr = [0.1, 0.2]\nbatch = [1, 2]\n[command]\nrun = [\"x\", \"{lr}\", \"{batch}\"]";
    assert_eq!(message(plan), "my.toml:2: factor: unknown key; did you mean \"factors\"?");
    let block = "version = 1\n[[block]]\nworkload = \"command\"\n[block.factor]\nlr = [0.1]\n[block.command]\nrun = [\"x\", \"{lr}\"]";
    assert!(
        messages(block)[0].contains("block.factor: unknown key; did you mean \"factors\"?"),
        "{:?}",
        messages(block)
    );
}

#[test]
fn true_and_false_are_no_levels() {
    assert!(message("[factors]\npin_memory = [true]").ends_with("true is not a level; did you mean \"on\"?"));
    assert!(message("[factors]\npin_memory = false").ends_with("false is not a level; did you mean \"off\"?"));
}

#[test]
fn in_a_list_of_texts_and_numbers_the_text_and_the_number_are_named() {
    let found = messages("version = 1\n[factors]\nprecision = [\"fp32\", 16]\n");
    let part = "in this list 16 is a number and \"fp32\" is a text: write all as numbers or all in quotes";
    assert!(found.iter().any(|message| message.contains(part)), "{found:?}");
}

#[test]
fn wrong_types_are_told() {
    for (body, part) in [
        ("name = 3", "name: must be a string, not a whole number"),
        ("repeats = \"3\"", "repeats: must be a whole number from 1 to 1000"),
        ("limits = 3", "limits: must be a table [limits], not a whole number"),
        ("[factors]\nprecision = 16", "must be a string, not a whole number; possible levels: fp32"),
        ("[factors]\nimage_size = 99.5", "must be a whole number, not a fraction"),
        ("[factors]\nimage_size = [[100]]", "must be a whole number, not a list"),
        ("[factors]\nlearning_rate = \"0.1\"", "must be a number, not a string"),
        ("[factors]\ngpus = 1979-05-27", "not a date"),
    ] {
        assert!(message(body).contains(part), "{}", message(body));
    }
}

#[test]
fn numbers_out_of_range_are_told_with_the_range() {
    for (body, part) in [
        ("repeats = 0", "from 1 to 1000"),
        ("seed = -1", "from 0 to"),
        ("[limits]\nrun_time_s = 0", "above 0"),
        ("[limits]\nrun_time_s = nan", "above 0"),
        ("[limits]\nmemory_limit_gb = inf", "above 0"),
        ("[factors]\nimage_size = 27", "27 is out of range: image_size goes from 28 to 2048"),
        ("[factors]\nepochs = 99999999999999999999999", "is out of range"),
        ("[factors]\nlearning_rate = nan", "NaN is out of range"),
        ("[factors]\nwidth_multiplier = 0", "0 is out of range: width_multiplier goes from 0.1 to 4"),
    ] {
        assert!(message(body).contains(part), "{}", message(body));
    }
}

#[test]
fn what_work_is_checked_by_is_read_with_its_margins() {
    let plan = Plan::parse("version = 1\n[check]\nval_loss = \"2 %\"\naccuracy = 0.005\n", "my.toml").unwrap();
    let checked = |measure: &str, margin| Checked { measure: measure.into(), margin };
    assert_eq!(
        plan.checked,
        [checked("val_loss", Margin::Relative(0.02)), checked("accuracy", Margin::Absolute(0.005))]
    );
    for margin in ["0", "-1", "\"two\"", "\"0 %\"", "true", "inf", "[1]"] {
        let message_text = message(&format!("[check]\nval_loss = {margin}"));
        assert!(
            message_text.starts_with("my.toml:3: ")
                && message_text.contains("check.val_loss: must be")
                && message_text.contains("\"2 %\""),
            "{message_text}"
        );
    }
    assert!(message("check = 1").contains("must be a table"));
}

#[test]
fn empty_lists_and_duplicates_are_refused() {
    assert!(message("[factors]\nlayout = []").contains("empty list"));
    assert!(message("[factors]\nlayout = [\"nhwc\", \"nchw\", \"nhwc\"]").contains("nhwc is listed twice"));
    assert!(message("[factors]\nlearning_rate = [0.0, -0.0]").contains("0 is listed twice"));
    assert!(message("[factors]\nlearning_rate = [1, 1.0]").contains("1 is listed twice"));
}

#[test]
fn image_counts_in_two_places_name_both_lines() {
    let found = message("[data]\ntrain_images = 100\n[factors]\ntrain_images = 200");
    assert!(found.contains("given in [data] (line 3) and in [factors] (line 5)"), "{found}");
    let plan = Plan::parse("version = 1\n[factors]\ntrain_images = [100, 200]", "").unwrap();
    assert_eq!(plan.varied(), ["train_images"]);
}

#[test]
fn folders_belong_to_data_sets_that_have_one() {
    assert!(message("[data]\nset = \"folder\"").contains("needs folder ="));
    assert!(message("[data]\nset = \"folder\"\nfolder = 3").contains("must be a string"));
    assert!(message("[data]\nfolder = \"x\"").contains("has no folder"));
    assert!(message("[data]\nset = \"mnist\"\nfolder = \"\"").contains("empty"));
}

#[test]
fn a_command_that_names_no_program_is_refused() {
    let found = message("workload = \"command\"\n[factors]\ntechnique = \"lora\"");
    assert!(found.contains("\"command\" needs a table [command] with run"), "{found}");
}

#[test]
fn all_problems_are_told_at_once_in_the_order_of_lines_and_many_are_counted() {
    let found = messages("version = 1\n[factors]\nlayout = \"x\"\nimage_size = 1\n[limits]\nfoo = 1\n");
    let lines: Vec<&str> = found.iter().map(|message| &message[..9]).collect();
    assert_eq!(lines, ["my.toml:3", "my.toml:4", "my.toml:6"]);
    let many: String = (0..50).map(|number| format!("key{number} = 1\n")).collect();
    let found = messages(&format!("version = 1\n{many}"));
    assert!(found.len() == 20 && found[19].ends_with("(and 30 more problems)"), "{found:?}");
}

#[test]
fn what_is_not_toml_is_told_with_its_line() {
    assert!(messages("version = 1\nrepeats = = 3")[0].starts_with("my.toml:2: not TOML: "));
    assert!(messages("version = 1\nseed = 1\nseed = 2")[0].starts_with("my.toml:3: not TOML: "));
}

#[test]
fn too_many_runs_are_refused() {
    let numbers = |to: i64| (1..=to).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let body = format!("repeats = 10\n[factors]\nepochs = [{}]\nbatch_size = [{}]", numbers(200), numbers(100));
    assert!(message(&body).contains("20000 combinations of levels × 10 repeats"), "{}", message(&body));
}

#[test]
fn files_that_cannot_be_plans_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Plan::read(&folder.path().join("missing.toml")).unwrap_err().to_string();
    assert!(missing.contains("missing.toml") && missing.contains("cannot read"), "{missing}");
    let large = folder.path().join("large.toml");
    std::fs::write(&large, vec![b'#'; 2 << 20]).unwrap();
    assert!(matches!(Plan::read(&large), Err(PlanError::TooLarge { .. })));
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    assert!(matches!(Plan::read(&binary), Err(PlanError::Read { .. })));
}

#[test]
fn the_plans_to_start_from_are_valid_and_as_large_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sessions");
    let quick = Plan::read(&folder.join("quickstart.toml")).unwrap();
    let mut two_cores = cpu_node();
    two_cores.cpus = 2;
    let matrix = expand(&quick, &two_cores);
    assert_eq!((matrix.cells.len(), matrix.invalid.len()), (2, 0));
    let total_s: f64 = order(&quick, &matrix.cells).iter().map(|run| matrix.cells[run.cell].estimate.duration_s).sum();
    assert!(total_s < 180.0, "{total_s} s on two slow cores");

    let papers = Plan::read(&folder.join("precision-layout-pin.toml")).unwrap();
    let matrix = expand(&papers, &gpu_node(1));
    assert_eq!((matrix.cells.len(), matrix.invalid.len()), (16, 0));

    for (name, cells) in [("loaders-scenario-b", 16), ("pin-memory", 8), ("loaders", 12), ("trace-cost", 12)] {
        let matrix = expand(&Plan::read(&folder.join(format!("{name}.toml"))).unwrap(), &gpu_node(4));
        assert_eq!((matrix.cells.len(), &matrix.invalid), (cells, &vec![]), "{name}");
    }
}

const COMMENTED: &str = r#"# The papers' setting.
version = 1
name = "mine"
seed = 7   # as in the paper

[factors]
# Slow ones first.
precision = ["fp64", "fp32"] # not fp16
image_size = 300

[data] # small
set = "digits"
train_images = 2000
"#;

#[test]
fn a_plan_that_is_saved_into_its_file_keeps_comments_and_order() {
    let plan = Plan::parse(COMMENTED, "my.toml").unwrap();
    assert_eq!(plan.to_toml_in(COMMENTED, "my.toml"), COMMENTED, "nothing is touched where nothing changed");
    let mut edited = plan;
    edited.repeats = 3;
    edited.seed = 8;
    for (key, levels) in &mut edited.first.factors {
        match &**key {
            "precision" => levels.push(Level::text("bf16")),
            "image_size" => *levels = vec![Level::Integer(100)],
            "train_images" => *levels = vec![Level::Integer(512)],
            "layout" => *levels = vec![Level::text("nhwc")],
            _ => {}
        }
    }
    let text = edited.to_toml_in(COMMENTED, "my.toml");
    assert_eq!(Plan::parse(&text, "my.toml").unwrap(), edited, "{text}");
    let expected = COMMENTED
        .replace("seed = 7 ", "seed = 8 ")
        .replace("# as in the paper\n", "# as in the paper\nrepeats = 3\n")
        .replace("\"fp32\"]", "\"fp32\", \"bf16\"]")
        .replace("image_size = 300\n", "layout = \"nhwc\"\n")
        .replace("2000", "512");
    assert_eq!(text, expected);
}

#[test]
fn a_site_is_read_written_and_taken_away_again() {
    let text = "version = 1\n[where]\nsite = \"lab\" # the big one\n";
    let mut plan = Plan::parse(text, "my.toml").unwrap();
    assert_eq!((plan.site.as_deref(), Plan::site_in(text).as_deref()), (Some("lab"), Some("lab")));
    assert_eq!(Plan::site_in(&plan.to_toml()).as_deref(), Some("lab"));
    plan.site = Some("small".to_owned());
    let changed = plan.to_toml_in(text, "my.toml");
    assert!(changed.contains("site = \"small\" # the big one"), "{changed}");
    plan.site = None;
    let without = plan.to_toml_in(text, "my.toml");
    assert_eq!((Plan::parse(&without, "my.toml").unwrap().site, Plan::site_in(&without)), (None, None), "{without}");
    let wrong = Plan::parse("version = 1\n[where]\nsites = \"lab\"\n", "my.toml").unwrap_err().to_string();
    assert!(wrong.contains("where.sites") && wrong.contains("did you mean \"site\""), "{wrong}");
}

#[test]
fn a_data_set_that_takes_the_place_of_another_leaves_nothing_of_it() {
    let text = "version = 1\n[data]\nset = \"folder\" # photos\nfolder = \"photos\"\ndecode = \"each_epoch\"\n";
    let mut plan = Plan::parse(text, "my.toml").unwrap();
    plan.first.set_data(DataSet::Digits.into());
    let again = plan.to_toml_in(text, "my.toml");
    assert!(again.contains("set = \"digits\" # photos") && !again.contains("decode"), "{again}");
    assert_eq!(Plan::parse(&again, "my.toml").unwrap(), plan);
}

const BLOCKS: &str = r#"
version = 1
[factors]
precision = ["fp32", "bf16"]

[[block]]
[block.data]
set = "folder"
folder = "photos"
[block.factors]
scenario = "b"
precision = "fp64"

[[constraint]]
exclude = "gpus > 2 and precision = fp64"
reason = "takes too long"
"#;

#[test]
fn further_blocks_and_constraints_are_read_and_written() {
    let plan = Plan::parse(BLOCKS, "my.toml").unwrap();
    assert_eq!((plan.further.len(), plan.constraints.len()), (1, 1));
    assert_eq!(plan.further[0].data, DataSet::files("photos").into());
    assert_eq!(plan.further[0].levels("precision"), [Level::text("fp64")]);
    assert_eq!(Plan::parse(&plan.to_toml(), "my.toml").unwrap(), plan, "{}", plan.to_toml());
    let mut edited = plan;
    edited.repeats = 2;
    let text = edited.to_toml_in(BLOCKS, "my.toml");
    assert_eq!(text, BLOCKS.replace("version = 1\n", "version = 1\nrepeats = 2\n"), "the rest is not touched");
    edited.further.clear();
    assert_eq!(Plan::parse(&edited.to_toml_in(BLOCKS, "my.toml"), "my.toml").unwrap(), edited);
}

#[test]
fn what_is_wrong_in_blocks_and_constraints_is_told_with_its_line() {
    assert_eq!(
        message("[[block]]\n[block.factors]\nprecison = \"fp32\""),
        "my.toml:4: block.factors.precison: unknown key; did you mean \"precision\"?"
    );
    assert!(message("[[block]]\nrepeats = 3").contains("block.repeats: unknown key"));
    assert!(message("block = 3").contains("must be tables [[block]]"));
    assert!(message("[[block]]\nworkload = \"command\"").contains("block.workload: \"command\" needs a table"));
    let constraint = |exclude: &str| message(&format!("[[constraint]]\nexclude = \"{exclude}\"\nreason = \"why\""));
    for (exclude, part) in [
        ("gpus > 2 and precison = fp64", "precison"),
        ("precision = fp128", "fp128"),
        ("gpus > ", "character"),
        ("", "empty: name the cells"),
    ] {
        let found = constraint(exclude);
        assert!(found.starts_with("my.toml:3: constraint.exclude: ") && found.contains(part), "{found}");
    }
    assert!(message("[[constraint]]\nreason = \"why\"").contains("constraint.exclude: missing"));
    assert!(message("[[constraint]]\nexclude = \"gpus > 2\"\nreason = \" \"").contains("empty: say why"));
}

#[test]
fn runs_are_full_unless_a_plan_asks_for_quick_ones_and_their_precision() {
    let with = |measure: &str| format!("version = 1\nworkload = \"image\"\n[measure]\n{measure}\n");
    let mode = |measure: &str| Plan::parse(&with(measure), "my.toml").map(|plan| plan.mode).unwrap();
    assert_eq!(mode("mode = \"full\""), Mode::Full);
    assert_eq!(mode("mode = \"quick\""), Mode::Quick { step_precision: 0.01 });
    assert_eq!(mode("mode = \"quick\"\nstep_precision = 0.05"), Mode::Quick { step_precision: 0.05 });
    for (measure, wanted) in [
        ("mode = \"quik\"", "unknown \"quik\""),
        ("step_precision = 0.05", "has no effect without mode"),
        ("mode = \"quick\"\nstep_precision = 1", "0.01 is ±1 %"),
        ("mode = \"quick\"\nstep_precision = \"1 %\"", "0.01 is ±1 %"),
    ] {
        let problems = messages(&with(measure));
        assert!(problems.iter().any(|message| message.contains(wanted)), "{measure}: {problems:?}");
    }
}

#[test]
fn tracing_is_off_unless_asked_and_takes_one_window() {
    let with = |measure: &str| format!("version = 1\nworkload = \"image\"\n[measure]\n{measure}\n");
    let tracing = |measure: &str| Plan::parse(&with(measure), "my.toml").map(|plan| plan.tracing).unwrap();
    assert_eq!(tracing("warm_up_steps = 3"), Tracing::default());
    let nsys = |capture| Tracing::by(&[Tracer::Nsys], capture);
    assert_eq!(tracing("trace = \"nsys\""), nsys(Capture::Whole));
    assert_eq!(tracing("trace = [\"nsys\"]"), nsys(Capture::Whole));
    assert_eq!(tracing("trace = \"nsys\"\ntrace_first_s = 720"), nsys(Capture::First { seconds: 720.0 }));
    let steps = nsys(Capture::Steps { first: 20, last: 60 });
    assert_eq!(tracing("trace = \"nsys\"\ntrace_steps = [20, 60]"), steps);
    assert_eq!(tracing("trace = \"built-in\""), Tracing::by(&[Tracer::BuiltIn], Capture::Whole));
    let steps = Tracing::by(&[Tracer::Off, Tracer::BuiltIn, Tracer::Nsys], Capture::Steps { first: 20, last: 60 });
    assert_eq!(tracing("trace = [\"nsys\", \"off\", \"built-in\"]\ntrace_steps = [20, 60]"), steps);
    for (measure, wanted) in [
        ("trace = \"nsight\"", "my.toml:4: measure.trace: unknown level \"nsight\""),
        ("trace = [\"off\", \"nsight\"]", "my.toml:4: measure.trace: unknown level \"nsight\""),
        ("trace = []", "my.toml:4: measure.trace: an empty list: name at least one level"),
        ("trace = [\"off\", \"off\"]", "my.toml:4: measure.trace: off is listed twice"),
        ("trace = true", "my.toml:4: measure.trace: must be a string"),
        ("trace = [[\"off\"]]", "my.toml:4: measure.trace: must be a string"),
        ("trace_first_s = 720", "has no effect without trace"),
        ("trace = [\"off\"]\ntrace_steps = [1, 2]", "has no effect without trace"),
        ("trace = \"built-in\"\ntrace_first_s = 1\ntrace_steps = [1, 2]", "remove one of them"),
        ("trace = \"nsys\"\ntrace_steps = [60, 20]", "such as [20, 60]"),
        ("trace = \"nsys\"\ntrace_steps = [0, 20]", "such as [20, 60]"),
        ("trace = \"nsys\"\ntrace_steps = 20", "such as [20, 60]"),
        ("trace = \"nsys\"\ntrace_first_s = -1", "above 0"),
        ("trace = \"nsys\"\ntrace_first_s = 1\ntrace_steps = [1, 2]", "remove one of them"),
        ("trace = \"built-in\"\ntrace_first_s = 1\ntrace_windows = [4, 20]", "remove one of them"),
        ("trace = \"built-in\"\ntrace_windows = true", "such as [4, 20]"),
        ("trace = \"built-in\"\ntrace_windows = [1, 20]", "such as [4, 20]"),
        ("trace = \"built-in\"\ntrace_windows = [4, 7]", "at least 4 more"),
        ("trace = \"built-in\"\ntrace_windows = [4]", "such as [4, 20]"),
        ("trace = \"nsys\"\ntrace_windows = [4, 20]", "trace_windows: has no effect without trace = \"built-in\""),
        ("trace = \"nsys\"\ntrace_calls = \"off\"", "trace_calls: has no effect without trace = \"built-in\""),
        ("trace = \"built-in\"\ntrace_calls = \"some\"", "measure.trace_calls: unknown level \"some\""),
        ("trace = \"built-in without calls\"", "measure.trace: unknown level"),
    ] {
        let problems = messages(&with(measure));
        assert!(problems.iter().any(|message| message.contains(wanted)), "{measure}: {problems:?}");
    }
}

#[test]
fn a_plan_says_whether_the_built_in_tracer_records_windows_and_calls() {
    let tracing = |lines: &str| {
        let text = format!("version = 1\nworkload = \"image\"\n[measure]\ntrace = [\"off\", \"built-in\"]\n{lines}\n");
        Plan::parse(&text, "my.toml").map(|plan| plan.tracing).unwrap()
    };
    let by = |tracers: &[Tracer], part| Tracing::by(&[&[Tracer::Off][..], tracers].concat(), part);
    assert_eq!(tracing(""), by(&[Tracer::BuiltIn], Capture::Whole));
    assert_eq!(tracing("trace_windows = [4, 20]"), by(&[Tracer::BuiltIn], Capture::USUAL));
    let windows = Capture::Windows { recorded: 2, period: 6 };
    assert_eq!(tracing("trace_windows = [2, 6]"), by(&[Tracer::BuiltIn], windows));
    assert_eq!(tracing("trace_calls = \"off\""), by(&[Tracer::BuiltInWithoutCalls], Capture::Whole));
    let both = by(&[Tracer::BuiltInWithoutCalls, Tracer::BuiltIn], Capture::Whole);
    assert_eq!(tracing("trace_calls = [\"off\", \"on\"]"), both);
    let written = |tracing: Tracing| {
        let text = Plan { tracing, ..small_plan(&[]) }.to_toml();
        text.lines().filter(|line| line.starts_with("trace")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(written(tracing("")), "trace = [\"off\", \"built-in\"]");
    assert_eq!(written(both), "trace = [\"off\", \"built-in\"]\ntrace_calls = [\"on\", \"off\"]");
    assert!(written(tracing("trace_windows = [4, 20]")).ends_with("\ntrace_windows = [4, 20]"));
    assert!(written(by(&[], windows)).is_empty());
    let narrow = Tracing::by(&[Tracer::BuiltInWithoutCalls], windows);
    assert_eq!(written(narrow), "trace = \"built-in\"\ntrace_calls = \"off\"\ntrace_windows = [2, 6]");
}

#[test]
fn one_tracer_is_written_as_its_name_and_several_as_a_list() {
    let written = |tracers: &[Tracer]| {
        let tracing = Tracing::by(tracers, Capture::Whole);
        let text = Plan { tracing, ..small_plan(&[]) }.to_toml();
        text.lines().find(|line| line.starts_with("trace")).map(str::to_owned)
    };
    assert_eq!((written(&[]), written(&[Tracer::Off])), (None, None));
    assert_eq!(written(&[Tracer::BuiltIn]).unwrap(), "trace = \"built-in\"");
    assert_eq!(written(&[Tracer::Nsys, Tracer::Off]).unwrap(), "trace = [\"off\", \"nsys\"]");
    let text = "version = 1\n[measure]\ntrace = [\"nsys\", \"off\"] # twins\n";
    let mut plan = Plan::parse(text, "my.toml").unwrap();
    assert!(plan.to_toml_in(text, "my.toml").contains("trace = [\"nsys\", \"off\"] # twins"));
    plan.tracing = plan.tracing.toggled(Tracer::Off);
    assert!(plan.to_toml_in(text, "my.toml").contains("trace = \"nsys\" # twins"));
}
