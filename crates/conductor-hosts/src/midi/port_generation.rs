//! Uses the platform's announcements to detect ports that disappeared and returned between two
//! scans.
//!
//! A list of ports contains only names, so a port that was replaced between two scans looks
//! unchanged. The first announcement of a port may arrive after a scan that already lists the port.
//! That announcement is not treated as a reconnect.

use super::PortInfo;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct PortGenerations {
    /// The ports of the last scan; `None` before the first scan.
    known: Option<BTreeMap<String, Known>>,
    /// How often each port was announced since the last scan.
    announced: BTreeMap<String, u64>,
    /// Number of announced removals that no scan has explained yet. A removal is explained by a
    /// port that is no longer listed, or by a reconnect.
    removed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    generation: u64,
    first: FirstAnnouncement,
}

/// The first announcement of a listed port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstAnnouncement {
    Arrived,
    Missing,
    /// The port was in the first scan. It may be older than the daemon's connection, and is then
    /// not announced.
    Unknown,
}

impl PortGenerations {
    /// Call when the platform announced a new port.
    pub fn announce(&mut self, id: String) {
        *self.announced.entry(id).or_default() += 1;
    }

    /// Call when the platform announced that a port was removed.
    pub fn announce_removal(&mut self) {
        self.removed += 1;
    }

    /// Sets the generation of each port of a new scan.
    pub fn update(&mut self, ports: &mut [PortInfo]) {
        let announced = std::mem::take(&mut self.announced);
        let before = self.known.take();
        let missing = before.iter().flatten().filter(|(id, _)| !ports.iter().any(|it| it.id == **id)).count() as u64;
        self.removed = self.removed.saturating_sub(missing);
        let mut now = BTreeMap::new();
        for port in ports {
            let count = announced.get(&port.id).copied().unwrap_or_default();
            // One id may be listed as an input and as an output.
            let known = now.entry(port.id.clone()).or_insert_with(|| {
                let last = before.as_ref().map(|it| it.get(&port.id));
                let (generation, first) = match last {
                    None => (0, FirstAnnouncement::Unknown),
                    Some(None) => (0, FirstAnnouncement::Missing),
                    Some(Some(known)) => (known.generation, known.first),
                };
                if count == 0 {
                    return Known { generation, first };
                }
                let is_first = match first {
                    FirstAnnouncement::Arrived => false,
                    FirstAnnouncement::Missing => true,
                    // A port that returned was removed before.
                    FirstAnnouncement::Unknown => self.removed == 0,
                };
                // A new port has no generation before its first announcement.
                let returns = if matches!(last, Some(Some(_))) { count - u64::from(is_first) } else { 0 };
                self.removed = self.removed.saturating_sub(returns);
                Known { generation: generation + returns, first: FirstAnnouncement::Arrived }
            });
            port.generation = known.generation;
        }
        self.known = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Way;
    use super::*;

    fn scan(generations: &mut PortGenerations, ids: &[&str]) -> Vec<u64> {
        let mut ports: Vec<PortInfo> = ids.iter().map(|id| PortInfo::new("test", Way::Input, *id, *id)).collect();
        generations.update(&mut ports);
        ports.iter().map(|it| it.generation).collect()
    }

    #[test]
    fn one_that_came_back_is_another_and_one_that_stayed_is_not() {
        let mut generations = PortGenerations::default();
        assert_eq!(scan(&mut generations, &["old"]), [0]);
        generations.announce("new".into());
        assert_eq!(scan(&mut generations, &["old", "new"]), [0, 0]);
        assert_eq!(scan(&mut generations, &["old", "new"]), [0, 0], "a generation has changed without announcement");
        generations.announce_removal();
        generations.announce("new".into());
        generations.announce_removal();
        generations.announce("old".into());
        assert_eq!(scan(&mut generations, &["old", "new"]), [1, 1]);
    }

    #[test]
    fn a_late_announcement_of_a_port_of_the_first_scan_is_not_a_return() {
        let mut generations = PortGenerations::default();
        assert_eq!(scan(&mut generations, &["early", "x"]), [0, 0]);
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["early", "x"]), [0, 0]);
        generations.announce_removal();
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["early", "x"]), [0, 1]);
        // The port was removed and returned before this scan. Its announcement arrives later.
        generations.announce_removal();
        assert_eq!(scan(&mut generations, &["early", "x"]), [0, 1]);
        generations.announce("early".into());
        assert_eq!(scan(&mut generations, &["early", "x"]), [1, 1]);
    }

    #[test]
    fn the_removal_of_another_port_explains_no_return() {
        let mut generations = PortGenerations::default();
        scan(&mut generations, &["x", "y"]);
        generations.announce_removal();
        assert_eq!(scan(&mut generations, &["x"]), [0]);
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["x"]), [0]);
    }

    #[test]
    fn an_announcement_that_comes_late_is_not_a_return() {
        let mut generations = PortGenerations::default();
        scan(&mut generations, &[]);
        assert_eq!(scan(&mut generations, &["x", "x"]), [0, 0], "a port that is listed twice was treated as replaced");
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["x", "x"]), [0, 0]);
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["x", "x"]), [1, 1]);
        // The port is announced late, and is replaced before the next scan.
        scan(&mut generations, &[]);
        assert_eq!(scan(&mut generations, &["x"]), [0]);
        generations.announce("x".into());
        generations.announce("x".into());
        assert_eq!(scan(&mut generations, &["x"]), [1]);
    }
}
