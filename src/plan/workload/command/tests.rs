use super::*;
use crate::plan::fixture::{cpu_node, gpu_node};
use crate::plan::{Plan, asked_cells, expand};

fn plan(text: &str) -> Plan {
    Plan::parse(&format!("version = 1\n{text}"), "my.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    Plan::parse(&format!("version = 1\n{text}"), "my.toml").err().map_or(String::new(), |error| error.to_string())
}

const SMALL: &str = "[command]\nrun = [\"./solve\", \"--threads={threads}\", \"{fast:--fast}\"]\n\
                     [factors]\nthreads = [1, 2]\nfast = [\"off\", \"on\"]\n";

#[test]
fn a_command_brings_its_workload_with_the_factors_that_the_plan_names() {
    let plan = plan(SMALL);
    let spec = &plan.first.spec;
    assert_eq!((&*spec.key, spec.factors.len(), plan.combinations()), ("command", 2, 4));
    assert_eq!(
        spec.factor("threads").map(|factor| &factor.domain),
        Some(&Domain::Integer { min: i64::MIN, max: i64::MAX })
    );
    assert_eq!(spec.factor("fast").map(|factor| factor.offered().count()), Some(2));
    let matrix = expand(&plan, &cpu_node());
    assert_eq!((matrix.cells.len(), matrix.invalid.len()), (4, 0), "{:?}", matrix.invalid);
    assert!(matrix.cells.iter().all(|cell| cell.shape.own_program));
    let command = spec.command.as_ref().map(|command| {
        let value = |name: &str| matrix.cells[3].levels.get(name).map(ToString::to_string);
        command.filled(&value).map(|filled| filled.run)
    });
    assert_eq!(command, Some(Ok(["./solve", "--threads=2", "--fast"].map(str::to_owned).to_vec())));
}

#[test]
fn a_plan_of_commands_is_written_as_it_is_read_with_its_comments() {
    let text = "version = 1\nname = \"peers\"\nworkload = \"image\"\n[factors]\nbatch_size = [32, 64]\n\
                # ours\n[[block]]\nworkload = \"command\"\n[block.command]\nname = \"pytorch\"\n\
                run = [\"python3\", \"train.py\", \"--batch={batch_size}\", \"--mode\", \"{mode}\"]\nfolder = \"peers\"\n\
                setup = [\"make\"]\ntime_limit_s = 60.0\nunit = \"images\"\nstep = \"iteration\"\n\
                env = { WORLD = \"{gpus}\", SEED = \"{seed}\" }\n[block.command.factor.mode]\nhelp = \"how\"\n\
                [block.factors]\nbatch_size = [32, 64]\nmode = \"eager\"\n";
    let plan = Plan::parse(text, "my.toml").unwrap_or_else(|error| panic!("{error}"));
    let keys: Vec<&str> = plan.blocks().map(|block| &*block.spec.key).collect();
    assert_eq!(keys, ["image", "pytorch"]);
    assert_eq!(plan.to_toml_in(text, "my.toml"), text);
    let again = Plan::parse(&plan.to_toml(), "my.toml").unwrap_or_else(|error| panic!("{error}\n{}", plan.to_toml()));
    assert_eq!(again, plan, "{}", plan.to_toml());
    let json = serde_json::to_string(&**plan.brought_workloads()[0]).unwrap_or_default();
    let kept: WorkloadSpec = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(kept, *plan.further[0].spec);
    assert_eq!(Plan::parse_with(text, "my.toml", &[kept.into()]).ok(), Some(plan));
}

#[test]
fn a_changed_command_or_level_is_another_cell_and_a_changed_time_limit_or_list_of_levels_is_not() {
    let ids = |text: &str| asked_cells(&plan(text)).into_iter().map(|cell| cell.identity).collect::<Vec<_>>();
    let all = ids(SMALL);
    assert_eq!(ids(&SMALL.replace("[1, 2]", "[2, 1]"))[..2], all[2..], "a level is the same wherever it stands");
    assert_eq!(ids(&SMALL.replace("[factors]", "time_limit_s = 5\nunit = \"rows\"\n[factors]")), all);
    let runs_as = |from: &str, to: &str| plan(SMALL).first.spec.runs_as(&plan(&SMALL.replace(from, to)).first.spec);
    assert!(runs_as("[factors]", "time_limit_s = 5\n[factors]") && runs_as("[1, 2]", "[2, 4]"));
    assert!(!runs_as("./solve", "./solve2") && !runs_as("[factors]", "unit = \"rows\"\n[factors]"));
    for (from, to) in
        [("./solve", "./solve2"), ("[factors]", "folder = \"x\"\n[factors]"), ("[factors]", "name = \"b\"\n[factors]")]
    {
        assert!(ids(&SMALL.replace(from, to)).iter().all(|id| !all.contains(id)), "{to}");
    }
}

#[test]
fn known_factors_keep_their_names_and_colours() {
    let plan = plan(
        "[command]\nrun = [\"x\", \"{precision}\", \"{batch_size}\"]\n[factors]\nprecision = [\"bf16\", \"fp6\"]\nbatch_size = 48\n",
    );
    let of_image = |key: &str| crate::plan::image::spec().factor(key).cloned();
    let of_plan = |key: &str| plan.first.spec.factor(key).cloned();
    let place = |factor: Option<Factor>, level: &str| factor.and_then(|factor| factor.place(&Level::text(level)));
    assert_eq!(place(of_plan("precision"), "bf16"), place(of_image("precision"), "bf16"));
    assert!(place(of_plan("precision"), "fp6") > place(of_plan("precision"), "bf16"));
    assert_eq!(of_plan("batch_size").map(|factor| factor.name), of_image("batch_size").map(|factor| factor.name));
}

#[test]
fn gpus_are_counted_by_the_machine_and_not_by_the_worker() {
    let text = |gpus: u32| format!("[command]\nrun = [\"x\"]\n[factors]\ngpus = {gpus}\n");
    let mut node = gpu_node(2);
    node.worker = Err("no worker".to_owned());
    let shape = |gpus: u32| expand(&plan(&text(gpus)), &node).cells.first().map(|cell| cell.shape.devices());
    assert_eq!((shape(2), shape(3)), (Some(2), None));
    assert_eq!(shape(0), Some(0), "a program may use none");
    let invalid = expand(&plan(&text(3)), &node).invalid;
    assert!(invalid[0].reason.contains("has 2 usable GPUs, not 3"), "{invalid:?}");
}

#[test]
fn gpus_of_a_command_are_chosen_only_where_the_machine_has_some() {
    let plan = plan("[command]\nrun = [\"x\"]\n[factors]\ngpus = 2\ngpu_set = \"0,1\"\n");
    let with_gpus = expand(&plan, &gpu_node(2));
    assert!(with_gpus.cells.len() == 1 && with_gpus.invalid.is_empty(), "{:?}", with_gpus.invalid);
    let without = expand(&plan, &cpu_node()).invalid;
    assert!(without[0].reason.contains("chooses among GPUs, but the run has no GPU"), "{without:?}");
}

#[test]
fn what_is_wrong_with_a_command_is_told_with_its_line() {
    for (text, line, expected) in [
        ("[command]\nfolder = \"x\"", 1, "command.run: missing"),
        ("[command]\nrun = []", 3, "name the program"),
        ("[command]\nrun = \"./x --y\"", 3, "must be a list of words"),
        ("[command]\nrun = [\"./x\", \"{thread}\"]\n[factors]\nthreads = 1", 3, "did you mean \"threads\"?"),
        ("[command]\nrun = [\"./x\", \"{thr\"]", 3, "does not close a placeholder"),
        ("[command]\nrun = [\"./x\"]\n[factors]\nthreads = [1, 2]", 5, "all levels would run the same program"),
        ("[command]\nrun = [\"./x\", \"{a}\"]\n[factors]\na = [\"auto\", 1]", 5, "mixes texts and numbers"),
        ("[command]\nrun = [\"./x\", \"{a}\"]\n[factors]\na = true", 5, "did you mean \"on\"?"),
        ("[command]\nrun = [\"./x\", \"{a}\"]\n[factors]\na = [\"a\\u0000b\"]", 5, "a level has a NUL character"),
        ("[command]\nrun = [\"./x\", \"{a}\"]\n[factors]\na = [1, 1]", 5, "is listed twice"),
        ("[command]\nrun = [\"./x\"]\nruns = 3", 4, "did you mean \"run\"?"),
        ("[command]\nrun = [\"./x\"]\nname = \"image\"", 4, "is the name of a built-in workload"),
        ("[command]\nrun = [\"./x\"]\nname = \"a b\"", 4, "is not a valid name"),
        ("[command]\nrun = [\"./x\"]\n[command.env]\n\"A=B\" = \"1\"", 5, "must not be empty or contain ="),
        ("[command]\nrun = [\"./x\"]\n[command.factor.a]\nhelp = \"y\"", 4, "[factors] has no a"),
        ("workload = \"image\"\n[command]\nrun = [\"./x\"]", 3, "with another workload"),
        ("[measure]\nmode = \"quick\"\n[command]\nrun = [\"./x\"]", 3, "cannot be used with commands"),
        (
            "[measure]\ntrace = \"built-in\"\ntrace_windows = [4, 20]\n[command]\nrun = [\"./x\"]",
            4,
            "trace_windows: cannot be used with programs of your own: multicard does not control their steps. Leave it out",
        ),
        (
            "[command]\nrun = [\"./x\"]\n[[block]]\n[block.command]\nrun = [\"./y\"]",
            5,
            "two commands of the plan are called \"command\"",
        ),
    ] {
        let found = refusal(text);
        assert!(found.contains(expected) && found.starts_with(&format!("my.toml:{line}:")), "{text}\n{found}");
    }
}

#[test]
fn where_a_plan_lies_decides_its_folders_and_not_its_cells() {
    let ids = |plan: &Plan| asked_cells(plan).into_iter().map(|cell| cell.identity).collect::<Vec<_>>();
    for (folder_name, expected) in
        [(None, "/plans"), (Some("work"), "/plans/work"), (Some("/abs"), "/abs"), (Some(".."), "/plans/..")]
    {
        let folder = folder_name.map_or(String::new(), |folder_name| format!("folder = \"{folder_name}\"\n"));
        let mut moved = plan(&SMALL.replace("[factors]", &format!("{folder}[factors]")));
        let before = ids(&moved);
        moved.set_folder(Some("/plans"));
        assert_eq!(ids(&moved), before);
        let filled = moved.first.spec.command.as_ref().map(|command| command.filled(&|_| Some("1".to_owned())));
        assert_eq!(filled.and_then(Result::ok).and_then(|filled| filled.folder).as_deref(), Some(expected));
        let json = serde_json::to_string(&*moved.first.spec).unwrap_or_default();
        assert_eq!(
            serde_json::from_str::<WorkloadSpec>(&json).ok().as_ref(),
            Some(&*moved.first.spec),
            "sessions keep it"
        );
    }
}

#[test]
fn only_factors_in_which_cells_differ_are_varied_where_workloads_are_mixed() {
    let text = "[factors]\nbatch_size = 32\nprecision = [\"fp32\", \"bf16\"]\n[[block]]\n[block.command]\nname = \"peer\"\n\
                run = [\"x\", \"{precision}\", \"{batch_size}\", \"{mode}\", \"{image_size}\"]\n[block.factors]\n\
                precision = [\"fp32\", \"bf16\"]\nbatch_size = 32\nmode = \"eager\"\nimage_size = 500\n";
    let mixed = plan(text);
    assert_eq!(mixed.varied(), ["precision", "image_size"]);
    assert!(mixed.has_several_workloads() && !plan(SMALL).has_several_workloads());
}

#[test]
fn a_constraint_leaves_out_cells_of_a_command_with_its_reason() {
    let text = format!("{SMALL}[[constraint]]\nexclude = \"threads > 1 and fast = on\"\nreason = \"too hot\"\n");
    let matrix = expand(&plan(&text), &cpu_node());
    assert_eq!((matrix.cells.len(), &*matrix.invalid[0].reason), (3, "too hot"));
}

#[test]
fn a_constraint_may_name_a_factor_of_a_command_that_has_the_key_of_a_setting() {
    let text = "[command]\nrun = [\"./solve\", \"{data}\", \"{workload}\", \"{mode}\", \"{trace}\"]\n\
                [factors]\ndata = [1, 2]\nworkload = [\"small\", \"large\"]\nmode = [\"a\", \"b\"]\ntrace = [\"x\", \"y\"]\n";
    let excluded = |exclude: &str| {
        let constraint = format!("[[constraint]]\nexclude = \"{exclude}\"\nreason = \"too large\"\n");
        expand(&plan(&format!("{text}{constraint}")), &cpu_node()).invalid.len()
    };
    for exclude in ["data > 1", "workload = large", "mode = b", "trace = y"] {
        assert_eq!(excluded(exclude), 8, "{exclude}");
    }
    // Cells of another workload have the data set.
    let both = format!("{text}[[block]]\nworkload = \"image\"\n[block.data]\nset = \"digits\"\n");
    let named = |exclude: &str| {
        let constraint = format!("[[constraint]]\nexclude = \"{exclude}\"\nreason = \"too large\"\n");
        let plan = plan(&format!("{both}{constraint}"));
        asked_cells(&plan).iter().filter(|cell| cell.excluded_by(&plan).is_some()).count()
    };
    assert_eq!((named("data = digits"), named("data = 2")), (1, 8));
}
