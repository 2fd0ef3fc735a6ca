//! How many CPUs the process may use: the default number of workers.
//!
//! `std::thread::available_parallelism` knows affinity and cgroup quotas, but rounds a quota of 1.5
//! CPUs down. Go rounds up, for a worker that is throttled a part of the time beats a half CPU that
//! no thread uses. So do we: the quota is read here once more, and the affinity separately.

use std::{fs, path::Path, thread};

/// The CPUs of the affinity mask, or fewer if a cgroup's quota, rounded up, allows fewer.
pub(super) fn available() -> usize {
    let counted = thread::available_parallelism().map_or(1, usize::from);
    match (quota(), affinity()) {
        (Some(quota), Some(affinity)) => quota.min(affinity).max(counted),
        _ => counted,
    }
}

/// The CPUs that the scheduler lets this process use.
fn affinity() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse_list(list.trim())
}

/// The length of a list such as `0-3,8`.
fn parse_list(list: &str) -> Option<usize> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: usize = first.parse().ok()?;
            let last: usize = last.parse().ok()?;
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

/// The tightest quota of the process's cgroup and its parents, in CPUs, rounded up.
fn quota() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups
        .lines()
        .filter_map(|line| group_quota(line, Path::new("/sys/fs/cgroup")))
        .min()
}

/// The quota of one line of `/proc/self/cgroup`: `id:controllers:path`.
fn group_quota(line: &str, root: &Path) -> Option<usize> {
    let mut fields = line.splitn(3, ':');
    let (_id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let path = path.trim_start_matches('/');
    let (root, read): (_, fn(&Path) -> Option<usize>) = if controllers.is_empty() {
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
    group
        .ancestors()
        .take_while(|group| group.starts_with(&root))
        .filter_map(read)
        .min()
}

/// `cpu.max`: quota and period, or `max`.
fn quota_v2(group: &Path) -> Option<usize> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    in_cpus(quota, period)
}

/// The two files of the older hierarchy; a quota of -1 is none.
fn quota_v1(group: &Path) -> Option<usize> {
    let quota = fs::read_to_string(group.join("cpu.cfs_quota_us")).ok()?;
    let period = fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?;
    in_cpus(quota.trim(), period.trim())
}

fn in_cpus(quota: &str, period: &str) -> Option<usize> {
    let quota: usize = quota.parse().ok()?;
    let period: usize = period.parse().ok()?;
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
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
    fn a_list_of_cpus_is_counted() {
        assert_eq!(parse_list("0-3,8"), Some(5));
        assert_eq!(parse_list("0"), Some(1));
        assert_eq!(parse_list(""), None);
        assert_eq!(parse_list("3-0"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("ws-cpus-{}", std::process::id()));
        let inner = root.join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.join("outer/cpu.max"), "250000 100000\n").unwrap();
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(group_quota("0::/outer/inner", &root), Some(3));
        assert_eq!(group_quota("4:memory:/outer/inner", &root), None);
        fs::remove_dir_all(root).unwrap();
    }
}
