//! A command with everything that it starts, as one process group that can be ended as a whole.
//!
//! A second process guards the group. It waits for the end of its input, and then ends all
//! processes of the group. Its input is a pipe that this process alone holds. So the group ends in
//! all cases: when [`Group::end`] closes the pipe, and when the system closes it because this
//! process was interrupted or killed. The guard is a process group of its own, so that an interrupt
//! from a terminal does not reach it.
//!
//! A process that makes a group or a session of its own leaves the group, and is not ended.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::process;

/// Ends the group `$1`, and waits until it is gone: by SIGTERM, and by SIGKILL if that is not
/// enough within five seconds. A process takes a moment to die of either.
const GUARD: &str = r#"
read -r _
for signal in TERM KILL; do
    kill "-$signal" "-$1" || exit
    for _ in $(seq 50); do
        sleep 0.1
        kill -0 "-$1" || exit
    done
done
"#;

pub(super) struct Group {
    leader: Child,
    guard: Child,
}

impl Group {
    /// Starts a command, without input.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let mut leader = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", &leader.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match guard {
            Ok(guard) => Ok(Self { leader, guard }),
            Err(error) => {
                leader.kill()?;
                leader.wait()?;
                Err(error)
            }
        }
    }

    /// Waits for the end of the command itself. None if it still runs after `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        process::wait(&mut self.leader, limit)
    }

    /// The processes of the group as `ps` shows them, below a line with the names of the columns.
    /// Empty where there is no such `ps`.
    pub(super) fn processes(&self) -> Vec<String> {
        listed(&self.leader.id().to_string())
    }

    /// Ends what is left of the group, and waits until it is gone.
    pub(super) fn end(mut self) -> io::Result<()> {
        drop(self.guard.stdin.take());
        self.leader.wait()?;
        self.guard.wait()?;
        Ok(())
    }
}

fn listed(group: &str) -> Vec<String> {
    let columns = ["-e", "-o", "pid,pgid,stat,etime,args", "--forest"];
    let list = process::output(Command::new("ps").args(columns)).unwrap_or_default();
    let is_shown = |column: &str| column == group || column == "PGID";
    list.lines()
        .filter(|line| line.split_whitespace().nth(1).is_some_and(is_shown))
        .map(|line| line.chars().take(160).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Group {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Group::start(command).unwrap()
    }

    /// A command that starts `sleep 600`, and `sleep 601` which ignores SIGTERM, and never ends.
    fn hangs() -> Group {
        let group = start("sleep 600 & (trap '' TERM; exec sleep 601) & wait");
        for what in [" sleep 600", " sleep 601"] {
            let is_there = |line: &String| line.ends_with(what);
            while !group.processes().iter().any(is_there) {
                std::thread::yield_now();
            }
        }
        group
    }

    /// What still runs of a group. A process that ended stays in the list, as `Z`, until its parent
    /// has asked for its status.
    fn running(group: u32) -> Vec<String> {
        let mut lines = listed(&group.to_string());
        lines.retain(|line| !line.contains("PGID"));
        lines.retain(|line| !line.split_whitespace().nth(2).unwrap().starts_with('Z'));
        lines
    }

    #[test]
    fn what_hangs_is_ended_with_all_that_it_started() {
        let mut group = hangs();
        let id = group.leader.id();
        assert!(group.wait(Duration::ZERO).unwrap().is_none());
        group.end().unwrap();
        assert!(running(id).is_empty(), "{:?}", running(id));
    }

    #[test]
    fn what_a_command_leaves_behind_is_ended() {
        let mut group = start("sleep 600 & exit 3");
        let id = group.leader.id();
        let status = group.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
        assert_eq!(running(id).len(), 1);
        group.end().unwrap();
        assert!(running(id).is_empty(), "{:?}", running(id));
    }

    #[test]
    fn a_group_ends_when_the_pipe_closes_that_its_guard_reads() {
        let mut group = start("sleep 600");
        let id = group.leader.id();
        // So does the system when this process ends.
        drop(group.guard.stdin.take());
        group.leader.wait().unwrap();
        group.guard.wait().unwrap();
        assert!(running(id).is_empty(), "{:?}", running(id));
        group.end().unwrap();
    }
}
