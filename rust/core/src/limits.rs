//! How much memory may still be allocated, by the machine and by every control group above this process (v1 and v2).
//!
//! Pages are charged when they become present, and if none are left the kernel kills the process instead of failing the
//! request, so large requests are checked beforehand. Requests smaller than `LARGE` are not checked.

use std::fs;
use std::path::{Path, PathBuf};

/// Requests of this size and above are compared with what is left: filling their pages takes much longer than the
/// check.
const LARGE: usize = 1 << 30;

/// Whether a request may be made at all.
pub fn allow(bytes: usize) -> bool {
    bytes < LARGE || bytes <= available()
}

/// The bytes that can be allocated now, or `usize::MAX` if no limit can be read.
pub fn available() -> usize {
    machine(Path::new("/proc/meminfo"), "MemAvailable").min(own_groups(group_available))
}

/// The bytes that this process and those in its control group may have together, or `usize::MAX` if no limit can be
/// read.
pub fn most() -> usize {
    machine(Path::new("/proc/meminfo"), "MemTotal").min(own_groups(group_limit))
}

fn own_groups(of: OfGroup) -> usize {
    groups(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"), of)
}

/// The limit that is computed for each group; the smallest one counts.
type OfGroup = fn(&Path, &Names) -> usize;

fn machine(meminfo: &Path, name: &str) -> usize {
    let Ok(text) = fs::read_to_string(meminfo) else { return usize::MAX };
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<usize>().ok()
    };
    match kilobytes(name) {
        Some(free) => free.saturating_add(kilobytes("SwapFree").unwrap_or(0)).saturating_mul(1024),
        None => usize::MAX,
    }
}

/// The files with a group's limit and use, and the prefix of its counts of reclaimable file pages.
struct Names {
    limit: &'static str,
    usage: &'static str,
    files: [&'static str; 2],
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: ["total_active_file", "total_inactive_file"],
};
const V2: Names = Names { limit: "memory.max", usage: "memory.current", files: ["active_file", "inactive_file"] };

fn groups(membership: &Path, root: &Path, of: OfGroup) -> usize {
    let Ok(text) = fs::read_to_string(membership) else { return usize::MAX };
    let mut least = usize::MAX;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            least = least.min(chain(root, path, &V2, of)).min(chain(&root.join("unified"), path, &V2, of));
        } else if controllers.split(',').any(|name| name == "memory") {
            least = least.min(chain(&root.join("memory"), path, &V1, of));
        }
    }
    least
}

/// The minimum over a group and all above it. Inside a container the path may not exist; the mount's root is the group
/// then.
fn chain(root: &Path, path: &str, names: &Names, of: OfGroup) -> usize {
    let own: PathBuf = root.join(path);
    own.ancestors()
        .take_while(|group| group.starts_with(root))
        .map(|group| of(group, names))
        .min()
        .unwrap_or(usize::MAX)
}

fn number(group: &Path, name: &str) -> Option<usize> {
    fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
}

/// "max", or a missing file, means no limit.
fn group_limit(group: &Path, names: &Names) -> usize {
    number(group, names.limit).unwrap_or(usize::MAX)
}

fn group_available(group: &Path, names: &Names) -> usize {
    let limit = group_limit(group, names);
    let Some(usage) = number(group, names.usage) else { return usize::MAX };
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let reclaimable: usize = statistics
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| names.files.contains(name))
        .filter_map(|(_, count)| count.trim().parse::<usize>().ok())
        .sum();
    limit.saturating_sub(usage).saturating_add(reclaimable).min(limit)
}

#[cfg(test)]
mod tests {
    use super::{available, group_available, group_limit, groups, machine, most};
    use std::fs;
    use std::path::PathBuf;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("rushlight-limits-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Tree(root)
        }

        fn write(&self, path: &str, text: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available() > 1 << 20);
        assert!(most() >= available().min(1 << 30));
    }

    #[test]
    fn free_memory_and_swap_are_counted() {
        let tree = Tree::new("machine");
        let file = tree.write("meminfo", "MemTotal: 100 kB\nMemAvailable:    50 kB\nSwapFree: 7 kB\n");
        assert_eq!(machine(&file, "MemAvailable"), 57 * 1024);
        assert_eq!(machine(&tree.0.join("absent"), "MemAvailable"), usize::MAX);
    }

    #[test]
    fn the_narrowest_group_of_version_2_decides() {
        let tree = Tree::new("v2");
        let file = tree.write("cgroup", "0::/outer/inner\n");
        tree.write("fs/outer/inner/memory.max", "max\n");
        tree.write("fs/outer/inner/memory.current", "10\n");
        tree.write("fs/outer/memory.max", "1000\n");
        tree.write("fs/outer/memory.current", "900\n");
        tree.write("fs/outer/memory.stat", "anon 5\nactive_file 20\ninactive_file 30\n");
        assert_eq!(groups(&file, &tree.0.join("fs"), group_available), 150);
        assert_eq!(groups(&file, &tree.0.join("fs"), group_limit), 1000);
    }

    #[test]
    fn version_1_is_read_at_the_mount_where_the_path_is_hidden() {
        let tree = Tree::new("v1");
        let file = tree.write("cgroup", "4:cpu,memory:/docker/abc\n0::/\n");
        tree.write("fs/memory/memory.limit_in_bytes", "500\n");
        tree.write("fs/memory/memory.usage_in_bytes", "600\n");
        assert_eq!(groups(&file, &tree.0.join("fs"), group_available), 0);
    }
}
