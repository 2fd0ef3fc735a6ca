//! How many CPUs the process may use: the default number of workers.
//!
//! Linux tells both the affinity mask and a cgroup's quota. `std::thread::available_parallelism`
//! rounds a quota of 1.5 CPUs down. Go rounds up: a worker that is throttled a part of the time
//! beats a half CPU that no thread uses. So do we. And on a kernel for more than 1,024 CPUs std
//! counts every CPU of the machine. So std is asked only for what is not known here.

use std::{path::Path, thread};

use ws_reactor::note_of_proc;

use crate::kernel_file;

/// The CPUs that a quota is worth, rounded up, if there is one.
type Quota = Option<usize>;

/// The CPUs of the affinity mask, or fewer if a cgroup's quota, rounded up, allows fewer.
pub(super) fn available() -> usize {
    let counted = || thread::available_parallelism().map_or(1, usize::from);
    workers_for(quota(), ws_reactor::allowed_cpus(), counted)
}

/// By the quota and the CPUs of the mask; what is not known, by what std counts.
fn workers_for(
    quota: Option<Quota>,
    allowed: Option<usize>,
    counted: impl FnOnce() -> usize,
) -> usize {
    match (quota, allowed) {
        (Some(quota), Some(allowed)) => quota.map_or(allowed, |quota| quota.min(allowed)),
        // std also finds the files of a group that are mounted elsewhere.
        (None, Some(allowed)) => allowed.min(counted()),
        (_, None) => counted(),
    }
}

/// A file of `/proc`, which a container may not have.
fn of_proc(path: &str) -> Option<String> {
    let text = kernel_file::read(Path::new(path));
    text.map_err(|error| note_of_proc(&error)).ok()
}

/// The tightest quota of the process's cgroup and its parents. None: the files of none were found.
fn quota() -> Option<Quota> {
    let groups = of_proc("/proc/self/cgroup")?;
    let quotas = groups
        .lines()
        .filter_map(|line| group_quota(line, Path::new("/sys/fs/cgroup")));
    tightest(quotas)
}

/// Of those that were found. A quota that is none is above all others.
fn tightest(quotas: impl Iterator<Item = Quota>) -> Option<Quota> {
    quotas.min_by_key(|quota| quota.unwrap_or(usize::MAX))
}

/// The quota of one line of `/proc/self/cgroup`: `id:controllers:path`.
fn group_quota(line: &str, root: &Path) -> Option<Quota> {
    let mut fields = line.splitn(3, ':');
    let (_id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let path = path.trim_start_matches('/');
    let (root, read): (_, fn(&Path) -> Option<Quota>) = if controllers.is_empty() {
        (root.to_path_buf(), quota_v2)
    } else if controllers.split(',').any(|controller| controller == "cpu") {
        let joined = root.join(controllers);
        (
            if joined.exists() {
                joined
            } else {
                root.join("cpu")
            },
            quota_v1,
        )
    } else {
        return None;
    };
    let group = root.join(path);
    let groups = group.ancestors();
    let groups = groups.take_while(|group| group.starts_with(&root));
    tightest(groups.filter_map(read))
}

/// `cpu.max`: quota and period, or `max`.
fn quota_v2(group: &Path) -> Option<Quota> {
    let text = kernel_file::read(&group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    Some(in_cpus(quota, period))
}

/// The two files of the older hierarchy; a quota of -1 is none.
fn quota_v1(group: &Path) -> Option<Quota> {
    let quota = kernel_file::read(&group.join("cpu.cfs_quota_us")).ok()?;
    let quota = quota.trim();
    if quota.starts_with('-') {
        return Some(None);
    }
    let period = kernel_file::read(&group.join("cpu.cfs_period_us")).ok()?;
    Some(in_cpus(quota, period.trim()))
}

fn in_cpus(quota: &str, period: &str) -> Quota {
    let quota: usize = quota.parse().ok()?;
    let period: usize = period.parse().ok()?;
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_quota_is_rounded_up() {
        assert_eq!(in_cpus("150000", "100000"), Some(2));
        assert_eq!(in_cpus("50000", "100000"), Some(1));
        assert_eq!(in_cpus("200000", "100000"), Some(2));
        assert_eq!(in_cpus("max", "100000"), None);
        assert_eq!(in_cpus("-1", "100000"), None);
    }

    #[test]
    fn a_mask_and_a_quota_make_the_number_of_workers() {
        // The quota and the mask, what std counts, and the workers.
        for (quota, allowed, counted, workers) in [
            (Some(Some(2)), Some(4), 1, 2),
            (Some(Some(8)), Some(4), 4, 4),
            (Some(Some(8)), Some(2048), 4096, 8),
            // The group's files say that there is none.
            (Some(None), Some(4), 2, 4),
            (None, Some(4), 4, 4),
            // A group whose files only std finds.
            (None, Some(4), 2, 2),
            // A kernel for more than 1,024 CPUs: std counts all that are there.
            (None, Some(6), 2048, 6),
            (Some(Some(2)), None, 3, 3),
            (None, None, 3, 3),
        ] {
            assert_eq!(
                workers_for(quota, allowed, || counted),
                workers,
                "{quota:?} {allowed:?} {counted}"
            );
        }
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("ws-cpus-{}", std::process::id()));
        let inner = root.join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(group_quota("0::/outer/inner", &root), None);
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(group_quota("0::/outer/inner", &root), Some(None));
        fs::write(root.join("outer/cpu.max"), "250000 100000\n").unwrap();
        assert_eq!(group_quota("0::/outer/inner", &root), Some(Some(3)));
        assert_eq!(group_quota("4:memory:/outer/inner", &root), None);
        // All groups above count, and a name may have a colon.
        let deep = root.join("outer/inner/a/cri:b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("cpu.max"), "max 100000\n").unwrap();
        let of_the_outermost = group_quota("0::/outer/inner/a/cri:b", &root);
        assert_eq!(of_the_outermost, Some(Some(3)));
        fs::write(deep.join("cpu.max"), "150000 100000\n").unwrap();
        let of_its_own = group_quota("0::/outer/inner/a/cri:b", &root);
        assert_eq!(of_its_own, Some(Some(2)));

        let older = root.join("cpu,cpuacct/job");
        fs::create_dir_all(&older).unwrap();
        fs::write(older.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(group_quota("4:cpu,cpuacct:/job", &root), Some(None));
        fs::write(older.join("cpu.cfs_quota_us"), "150000\n").unwrap();
        assert_eq!(group_quota("4:cpu,cpuacct:/job", &root), None);
        fs::write(older.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(group_quota("4:cpu,cpuacct:/job", &root), Some(Some(2)));
        // The line names the controllers in another order than the folder.
        let alone = root.join("cpu/job");
        fs::create_dir_all(&alone).unwrap();
        fs::write(alone.join("cpu.cfs_quota_us"), "250000\n").unwrap();
        fs::write(alone.join("cpu.cfs_period_us"), "100000\n").unwrap();
        assert_eq!(group_quota("4:cpuacct,cpu:/job", &root), Some(Some(3)));
        fs::remove_dir_all(root).unwrap();
    }
}
