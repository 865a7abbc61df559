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
}

#[derive(Clone, Copy, Debug)]
struct Known {
    generation: u64,
    /// Whether the first announcement of the listed port has not arrived yet.
    awaits_announcement: bool,
}

impl PortGenerations {
    /// Call when the platform announced a new port.
    pub fn announce(&mut self, id: String) {
        *self.announced.entry(id).or_default() += 1;
    }

    /// Sets the generation of each port of a new scan.
    pub fn update(&mut self, ports: &mut [PortInfo]) {
        let announced = std::mem::take(&mut self.announced);
        let mut now = BTreeMap::new();
        for port in ports {
            let count = announced.get(&port.id).copied().unwrap_or_default();
            // One id may be listed as an input and as an output.
            let known = now.entry(port.id.clone()).or_insert_with(|| match &self.known {
                // Ports of the first scan existed before the daemon connected, so they are not
                // announced.
                None => Known { generation: 0, awaits_announcement: false },
                Some(before) => match before.get(&port.id) {
                    None => Known { generation: 0, awaits_announcement: count == 0 },
                    Some(it) => Known {
                        generation: it.generation + count.saturating_sub(u64::from(it.awaits_announcement)),
                        awaits_announcement: it.awaits_announcement && count == 0,
                    },
                },
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
        generations.announce("new".into());
        generations.announce("old".into());
        assert_eq!(scan(&mut generations, &["old", "new"]), [1, 1]);
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
