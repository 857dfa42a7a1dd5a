//! `multicard site`: lists the user's sites, adds one from what Slurm tells, and tries one.

use clap::Args;

use super::doctor::line;
use super::follow::interrupts;
use super::{OK, Outcome, SOME_RUN_FAILED, print, say};
use crate::launch::{Nodes, add_site, nodes, site, sites, sites_file};
use crate::protocol::Site;
use crate::session::{Health, Machine, examine_site};

#[derive(Args)]
pub(super) struct Arguments {
    /// The site to show and to try: a run that does nothing shows that its nodes share the working directory and have this multicard.
    /// Without it, all sites are listed.
    name: Option<String>,
    /// The number of nodes of that run. With several nodes, it also shows whether they share the working directory with
    /// each other, and have the same multicard.
    #[arg(long, requires = "name", conflicts_with = "add", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Add the site to your settings, with what Slurm tells of this cluster.
    #[arg(long, requires = "name")]
    add: bool,
    /// With --add: the partition. Default: the cluster's default partition.
    #[arg(long, requires = "add", value_name = "NAME")]
    partition: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Some(name) = &arguments.name else { return list() };
    if arguments.add {
        return add(name, arguments.partition.as_deref());
    }
    let site = site(name)?;
    print(settings(&site)?.trim_end())?;
    let stop = interrupts()?;
    let folder = std::env::current_dir()?;
    let mut tell = |reason: &str| say(reason);
    let checks = examine_site(&site, arguments.nodes, Machine::look(), &folder, &stop, &mut tell);
    print(&checks.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(if checks.iter().any(|check| check.health == Health::Bad) { SOME_RUN_FAILED } else { OK })
}

fn list() -> Outcome {
    let all = sites()?;
    if all.is_empty() {
        let file = sites_file()?;
        say(format_args!(
            "no site in {}: on a cluster's login node, `multicard site NAME --add` adds it",
            file.display()
        ));
        return Ok(OK);
    }
    print(all.iter().map(settings).collect::<Result<Vec<_>, _>>()?.join("\n").trim_end())?;
    Ok(OK)
}

/// A site's table, as the file of sites has it.
fn settings(site: &Site) -> Result<String, toml::ser::Error> {
    let unnamed = Site { name: String::new(), ..site.clone() };
    Ok(format!("[{}]\n{}", site.name, toml::to_string(&unnamed)?))
}

fn add(name: &str, partition: Option<&str>) -> Outcome {
    let all = nodes().map_err(|error| error.to_string())?;
    let ours: Vec<&Nodes> =
        all.iter().filter(|at| partition.map_or(at.is_default, |named| at.partition == named)).collect();
    if ours.is_empty() {
        let mut known: Vec<&str> = all.iter().map(|at| at.partition.as_str()).collect();
        known.dedup();
        return Err(format!("name one of the cluster's partitions with --partition: {}", known.join(", ")).into());
    }
    let most = ours.iter().max_by_key(|at| at.gpus).filter(|at| at.gpus > 0);
    let gres = most.map(|at| if at.gpu_type.is_empty() { "gpu".to_owned() } else { format!("gpu:{}", at.gpu_type) });
    // A node's CPUs are shared evenly by its GPUs.
    let cpus_per_task = most.map(|at| (at.cpus / at.gpus).max(1));
    let site = Site {
        name: name.to_owned(),
        partition: Some(ours[0].partition.clone()),
        gres,
        cpus_per_task,
        ..Site::default()
    };
    let file = add_site(&site)?;
    print(settings(&site)?.trim_end())?;
    say(format_args!("added to {}; `multicard site {name}` tries it", file.display()));
    Ok(OK)
}
