//! The programs as an operator runs them: `turnwright dev`, talk, kill, stop, open again, demo.

use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};
use tokio::process::{Child, Command};
use turnwright_tests::{eventually, programs::program};

const START: Duration = Duration::from_secs(60);

/// A folder of its own for each test, with a home that nothing else uses.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program("turnwright"));
        let env = turnwright_kit::config::Env::process();
        let tools = turnwright_tests::programs::repository().join(".tools/venv");
        command
            .env_clear()
            .env("PATH", env.get("PATH").unwrap_or("/usr/bin:/bin"))
            .env("TURNWRIGHT_TOOLS_DIR", tools)
            .env("HOME", self.0.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str]) -> Output {
        let data = self.path("data");
        let run = self.command().arg("--data").arg(&data).args(args).output();
        tokio::time::timeout(Duration::from_secs(120), run)
            .await
            .expect("it ends")
            .expect("it starts")
    }

    /// What a command printed as JSON.
    async fn json(&self, args: &[&str]) -> Value {
        let out = self.run(&[args, &["-o", "json"]].concat()).await;
        assert!(out.status.success(), "{args:?}: {}", said(&out));
        serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{args:?}: {e}: {}", said(&out)))
    }

    async fn dev(&self) -> Dev {
        let (data, ready) = (self.path("data"), self.path("ready"));
        let _ = std::fs::remove_file(&ready);
        let mut command = self.command();
        command.arg("dev").arg("--data").arg(&data).arg("--ready").arg(&ready);
        let child = command.stderr(Stdio::inherit()).stdout(Stdio::null()).spawn().unwrap();
        let dev = Dev { child, data };
        eventually("dev is ready", START, || async {
            read(&ready).ok_or_else(|| "no ready file".to_owned())
        })
        .await;
        dev
    }
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

struct Dev {
    child: Child,
    data: PathBuf,
}

impl Dev {
    fn pid(&self, service: &str) -> i64 {
        let connection = read(&self.data.join("connection.json")).expect("connection.json");
        connection["pids"][service].as_i64().expect("pid")
    }

    async fn stop(mut self) -> Option<i32> {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let end = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        end.expect("dev stops").unwrap().code()
    }
}

fn kill(pid: i64) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_talks_survives_kills_stops_and_opens_again() {
    let machine = Machine::new();
    let dev = machine.dev().await;
    let first = machine.json(&["chat", "--agent", "maren", "hello"]).await;
    assert_eq!(first["text"], "You said: hello");

    let second = machine.run(&["dev"]).await;
    assert_eq!(second.status.code(), Some(2), "{}", said(&second));
    let stranger = machine.run(&["chat", "--agent", "nobody", "hi"]).await;
    assert_eq!(stranger.status.code(), Some(1));
    assert!(said(&stranger).contains("maren"), "{}", said(&stranger));

    for service in ["worker", "gateway", "adapters", "control-plane", "postgres", "nats"] {
        kill(dev.pid(service));
        let again =
            machine.json(&["chat", "--agent", "maren", &format!("without {service}")]).await;
        assert_eq!(again["text"], format!("You said: without {service}"));
    }
    let check = machine.run(&["ledger", "check"]).await;
    assert_eq!(check.status.code(), Some(0), "{}", said(&check));
    assert_eq!(dev.stop().await, Some(0));

    let away = machine.run(&["turn", "list"]).await;
    assert_eq!(away.status.code(), Some(2), "{}", said(&away));
    let dev = machine.dev().await;
    let turns = machine.json(&["turn", "list"]).await;
    assert_eq!(turns["turns"].as_array().map(Vec::len), Some(7));
    let same = machine.json(&["chat", "--agent", "maren", "still there?"]).await;
    assert_eq!(same["text"], "You said: still there?");
    let shown = machine.json(&["turn", "show", "latest"]).await;
    assert!(shown.to_string().contains("delivery_settled"), "{shown}");
    let raw = machine.run(&["prompt", "show", "console-maren/main#8", "--raw"]).await;
    assert!(String::from_utf8_lossy(&raw.stdout).contains("<soul>"));
    assert_eq!(dev.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_folder_is_told_of_everything_wrong_with_it() {
    let machine = Machine::new();
    let dev = machine.dev().await;
    let agents = machine.path("agents");
    let write = |path: &str, text: &str| {
        let path = agents.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("zoe/agent.yaml", "slug: zoe\ndisplay_name: Zoe\nsettings: {nope: 1}\n");
    write("zoe/skills/s/SKILL.md", "no frontmatter");
    std::os::unix::fs::symlink("/nowhere", agents.join("zoe/SOUL.md")).unwrap();
    let folder = agents.display().to_string();
    let bad = machine.run(&["apply", "-f", &folder]).await;
    assert_eq!(bad.status.code(), Some(1));
    for place in ["zoe/agent.yaml", "zoe/skills/s/SKILL.md:1", "zoe/SOUL.md"] {
        assert!(said(&bad).contains(place), "{place} in {}", said(&bad));
    }
    std::fs::remove_file(agents.join("zoe/SOUL.md")).unwrap();
    write("zoe/agent.yaml", "slug: zoe\ndisplay_name: Zoe\n");
    write("zoe/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nBody.\n");
    let good = machine.run(&["apply", "-f", &folder]).await;
    assert!(good.status.success(), "{}", said(&good));
    // The documents are missing, which is no error and is said.
    assert!(said(&good).contains("zoe/SOUL.md"), "{}", said(&good));
    let answer = machine.json(&["chat", "--agent", "zoe", "are you new?"]).await;
    assert_eq!(answer["text"], "You said: are you new?");
    assert_eq!(dev.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_holds_with_an_agent_nobody_has_seen() {
    let machine = Machine::new();
    let agents = machine.path("agents");
    std::fs::create_dir_all(agents.join("quill/skills/inks")).unwrap();
    std::fs::write(agents.join("quill/agent.yaml"), "slug: quill\ndisplay_name: Quill\n").unwrap();
    let skill = "---\nname: inks\ndescription: Which ink for which paper\n---\nIron gall.\n";
    std::fs::write(agents.join("quill/skills/inks/SKILL.md"), skill).unwrap();
    let file = machine.path("demo.json");
    let mut command = machine.command();
    command.arg("demo").arg("--data").arg(machine.path("demo")).arg("--agents").arg(&agents);
    let run = command.arg("--json").arg(&file).output();
    let out = tokio::time::timeout(Duration::from_secs(150), run).await.expect("it ends").unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let told = read(&file).expect("the demo writes its checks");
    let checks = told["checks"].as_array().unwrap();
    assert!(checks.len() >= 8 && checks.iter().all(|c| c["held"] == true), "{told}");
    assert_eq!(told["replies"].as_array().map(Vec::len), Some(3));
    assert!(said(&out).contains("Iron gall."));
}
