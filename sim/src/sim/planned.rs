//! Plans of faults in a simulation: drawn before the run, and told when it fails.

use std::time::Duration;

use super::{Phase, Sim};
use crate::{
    DiskFaults, Plan,
    network::Link,
    plan::{Drawn, Fault, Host, Kept},
    rng::Rng,
};

/// Makes the seed of the plans from that of the run: as text it is "faults".
const FAULTS: u64 = 0x6661_756c_7473;

/// Faults that a failure tells.
const TOLD: usize = 40;

impl Sim {
    /// Lets the seed draw faults from a plan. They happen beside those of [`after`](Self::after),
    /// and of other plans. The end of a fault puts back what it found, but the end of a partition,
    /// or of a hold, ends also one of the test's own between the same hosts.
    ///
    /// A failure tells the faults in words. [`check()`](crate::check()) then looks for the smallest
    /// plan with which the seed still fails.
    ///
    /// # Examples
    ///
    /// See [`Plan`].
    ///
    /// # Panics
    ///
    /// If the run has begun: its faults are drawn before. The run panics if the plan names a host
    /// that is not there, or may have more than 100,000 faults.
    #[track_caller]
    pub fn faults(&self, plan: Plan) {
        assert!(
            self.inner.phase.get() == Phase::New,
            "a plan of faults comes after the begin of the run: call `Sim::faults` before it"
        );
        self.inner.plans.borrow_mut().push(plan);
    }

    /// The faults of the plans in words, as they happen in this run. Before the run there are none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ws_sim::{FaultKind, Plan, Sim};
    ///
    /// let sim = Sim::new(7);
    /// sim.host("server", || std::future::pending::<()>());
    /// sim.client("client", async { ws::time::sleep(Duration::from_secs(60)).await });
    /// sim.faults(Plan::new().only([FaultKind::Pause]));
    /// sim.try_run()?;
    /// let faults = sim.planned_faults();
    /// assert!(faults[0].contains(": pause \"server\", until "), "{faults:?}");
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    pub fn planned_faults(&self) -> Vec<String> {
        let planned = self.inner.planned_faults.borrow();
        planned.iter().map(|(_, fault)| fault.to_string()).collect()
    }

    /// Of its plans these faults alone will happen, or all.
    pub(crate) fn keep(&self, kept: Option<Kept>) {
        self.inner.kept.replace(kept);
    }

    /// What its run has drawn of its plans.
    pub(crate) fn drawn(&self) -> Drawn {
        self.inner.drawn.borrow().clone()
    }

    /// Draws the faults, and plans those that happen.
    ///
    /// # Panics
    ///
    /// If `WS_FAULTS` names faults that are not there.
    pub(super) fn plan_faults(&self) {
        if self.inner.plans.borrow().is_empty() {
            return;
        }
        let all = self.draw_faults();
        let kept = self.inner.kept.borrow();
        let last = kept.as_ref().map_or(0, Kept::last);
        assert!(
            last <= all.len(),
            "WS_FAULTS names fault {last}, and this seed has {}: run the seed without it first",
            all.len()
        );
        self.inner.drawn.borrow_mut().planned = all.len();
        for (place, fault) in all.into_iter().enumerate() {
            let number = place + 1;
            let halvings = kept.as_ref().map_or(Some(0), |kept| kept.halvings(number));
            let Some(halvings) = halvings else { continue };
            let most = fault.halvings();
            let fault = fault.halved(halvings);
            let told = fault.clone();
            self.after(fault.begin(), move |sim| {
                sim.inner.drawn.borrow_mut().begun.push((number, most));
                let end = fault.happen(sim);
                sim.after(fault.time(), end);
            });
            self.inner.planned_faults.borrow_mut().push((number, told));
        }
    }

    fn draw_faults(&self) -> Vec<Fault> {
        let plans = self.inner.plans.take();
        let hosts = self.inner.hosts.borrow();
        let host = |slot: &super::Slot| Host {
            name: slot.name.clone(),
            is_client: slot.main.is_client(),
        };
        let hosts: Vec<Host> = hosts.iter().map(host).collect();
        let mut rng = Rng::new(self.inner.seed ^ FAULTS);
        let mut all = Vec::new();
        for plan in plans {
            let drawn = plan.draw(&hosts, &mut rng, &all);
            all.extend(drawn);
        }
        all.sort_by_key(Fault::begin);
        all
    }

    /// Those of the planned faults that have begun, one a line.
    pub(crate) fn faults_so_far(&self) -> String {
        let planned = self.inner.planned_faults.borrow();
        let now = self.elapsed();
        let begun: Vec<_> = planned
            .iter()
            .filter(|(_, fault)| fault.begin() <= now)
            .collect();
        let mut text = String::new();
        if begun.len() > TOLD {
            text += &format!("  {} before these\n", begun.len() - TOLD);
        }
        for (number, fault) in &begun[begun.len().saturating_sub(TOLD)..] {
            text += &format!("  {number}. {fault}\n");
        }
        text
    }

    /// Ends partitions from hosts of `from` to hosts of `to`. The ways back stay as they are.
    #[track_caller]
    pub fn heal_one_way<A: AsRef<str>, B: AsRef<str>>(
        &self,
        from: impl IntoIterator<Item = A>,
        to: impl IntoIterator<Item = B>,
    ) {
        let (from, to) = (self.ids(from), self.ids(to));
        self.note_ways("healed", (&from, "to", &to));
        let net = &mut self.inner.world.borrow_mut().net;
        net.heal_one_way(&from, &to);
    }

    /// The link of its own that a way has, and the one that it uses.
    pub(crate) fn link(&self, from: &str, to: &str) -> (Option<Link>, Link) {
        let ids = self.ids([from, to]);
        self.inner.world.borrow().net.link(ids[0], ids[1])
    }

    /// Gives a way its own link, or the default one.
    pub(crate) fn restore_link(&self, from: String, to: String, link: Option<Link>) {
        let ids = self.ids([from, to]);
        let net = &mut self.inner.world.borrow_mut().net;
        net.restore_link(ids[0], ids[1], link);
    }

    pub(crate) fn step_time(&self, host: &str) -> Duration {
        let index = self.index(host);
        Duration::from_nanos(self.inner.world.borrow().hosts[index].step_time)
    }

    pub(crate) fn skew_of(&self, host: &str) -> i64 {
        let index = self.index(host);
        self.inner.world.borrow().hosts[index].skew
    }

    pub(crate) fn disk_faults(&self, host: &str) -> DiskFaults {
        let index = self.index(host);
        self.inner.world.borrow().hosts[index].disk.faults()
    }
}
