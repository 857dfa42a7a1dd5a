//! Logins on the node that queue runs and end: the queue goes on, and nothing keeps the login's connection open.

use super::*;

impl Scene {
    /// Runs a script in a login on the node, which has to end while the runs go on; what it said. `multicard` is the node's.
    fn login(&self, options: &[&str], script: &str) -> String {
        let said_file = self.at("said");
        let file = fs::File::create(&said_file).unwrap();
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.at("ssh_config")).args(options);
        ssh.args(["node", &format!("PATH={}:$PATH; {script}", self.place.display())]);
        let mut ssh = ssh.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let start = Instant::now();
        while ssh.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                ssh.kill().unwrap();
                panic!("the login {script:?} never ends: {}", fs::read_to_string(&said_file).unwrap());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::read_to_string(&said_file).unwrap()
    }
}

#[test]
fn a_queue_that_a_login_started_goes_on_after_it_and_does_not_keep_it_open() {
    let run = "multicard run waits.toml --session session --detach";
    for (options, script) in [
        (&["-T"][..], format!("{run}; kill -HUP 0")),
        // A terminal hangs up when its session ends.
        (&["-tt"], run.to_owned()),
        // Scripts keep their output elsewhere; bash gives numbers from 10 on.
        (&["-T"], format!("exec 3>&1 4>&2 9>&1; {run}")),
        (&["-T"], format!("exec bash -c 'exec {{one}}>&1 {{other}}>&2 200>&1; [ $one -ge 10 ] && {run}'")),
        (&["-T"], format!("env -i setsid --wait {run}").replace("multicard", "$(command -v multicard)")),
    ] {
        let scene = Scene::new();
        fs::copy(scene.laptop("waits.toml"), scene.node("waits.toml")).unwrap();
        let output = scene.login(options, &script);
        assert!(output.contains("3 runs queued"), "{script}: {output}");
        scene.await_start();
        assert_eq!(scene.processes("conduct").len(), 1, "{script}");
        scene.open_gate();
        wait("all runs have ended", || scene.states() == ALL_FINISHED);
        wait("the conductor ends", || scene.processes("conduct").is_empty());
    }
}
