//! The pseudo file system: the directories above the exports (§7.3).
//!
//! **Owns** [`Tree`], an immutable snapshot. **Called by** the operations on names and attributes. **Invariants**: a directory's
//! number follows from its path, so that handles stay valid when exports come and go, and after a restart; a host sees only
//! directories on the way to an export that it may use.

use super::{Access, Export, ExportConfig, ExportError, Hosts};
use crate::limits::EXPORTS_MAX;
use backend::file::Name;
use siphasher::sip::SipHasher24;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

/// A directory of the pseudo file system.
pub(crate) struct Node {
    /// Its number.
    pub(crate) id: u64,
    /// The number of its parent; the root's is its own.
    pub(crate) parent: u64,
    /// Its directories, by name.
    pub(crate) children: BTreeMap<Vec<u8>, u64>,
    /// The export that takes the directory's place.
    pub(crate) export: Option<Arc<Export>>,
}

/// How the exports know a host, from the least on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// No export admits it.
    Stranger,
    /// An export admits every address, or may admit this one once a name is resolved.
    Admitted,
    /// A rule of an export names it or its network.
    Listed,
}

/// All directories and exports.
pub(crate) struct Tree {
    root: u64,
    nodes: HashMap<u64, Node>,
    exports: BTreeMap<u32, Arc<Export>>,
    /// Grows with each change.
    pub(crate) change: u64,
}

/// The number of the directory of this path. Paths of two directories have the same number with a probability of 2^-63.
fn number_of(path: &[&str]) -> u64 {
    let mut hasher = SipHasher24::new();
    for part in path {
        hasher.write(part.as_bytes());
        hasher.write_u8(b'/');
    }
    hasher.finish() >> 1 | 1
}

/// The components of an absolute path. Errors: `InvalidPath`.
fn components(path: &str) -> Result<Vec<&str>, ExportError> {
    let invalid = || ExportError::InvalidPath(path.into());
    let rest = path.strip_prefix('/').ok_or_else(invalid)?;
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    match parts.iter().all(|part| Name::new(part.as_bytes()).is_ok()) {
        true => Ok(parts),
        false => Err(invalid()),
    }
}

impl Tree {
    /// The tree of these exports. Errors: `PathExists`, `NumberExists`, `InvalidPath`, `TooMany`.
    pub(crate) fn new(
        configs: Vec<(ExportConfig, [u8; 8])>,
        change: u64,
    ) -> Result<Self, ExportError> {
        if configs.len() > EXPORTS_MAX {
            return Err(ExportError::TooMany);
        }
        let root = number_of(&[]);
        let mut tree = Self {
            root,
            nodes: HashMap::from([(root, Node::new(root, root))]),
            exports: BTreeMap::new(),
            change,
        };
        for (config, verifier) in configs {
            tree.add(config, verifier)?;
        }
        Ok(tree)
    }

    fn add(&mut self, config: ExportConfig, verifier: [u8; 8]) -> Result<(), ExportError> {
        let path = config.path.clone();
        let parts = components(&path)?;
        let mut parent = self.root;
        for len in 1..=parts.len() {
            let id = number_of(&parts[..len]);
            let name = parts[len - 1].as_bytes().to_vec();
            if let Some(node) = self.nodes.get_mut(&parent) {
                node.children.insert(name, id);
            }
            let of_parent = parent;
            self.nodes
                .entry(id)
                .or_insert_with(|| Node::new(id, of_parent));
            parent = id;
        }
        let number = config.id;
        let export = Arc::new(Export {
            config,
            node: parent,
            verifier,
        });
        if self.exports.insert(number, export.clone()).is_some() {
            return Err(ExportError::NumberExists(number));
        }
        let place = self.nodes.get_mut(&parent).map(|node| &mut node.export);
        match place.and_then(|place| place.replace(export)) {
            Some(_) => Err(ExportError::PathExists(path)),
            None => Ok(()),
        }
    }

    /// All exports.
    pub(crate) fn exports(&self) -> impl Iterator<Item = &Arc<Export>> {
        self.exports.values()
    }

    /// An export that this host may use, or may once a name is resolved.
    pub(crate) fn export(&self, id: u32, peer: IpAddr) -> Option<&Arc<Export>> {
        self.exports.get(&id).filter(|e| !e.denies(peer))
    }

    /// Of the exports that the host may use, or may once a name is resolved, the one with the longest path that this path begins with; and the number of its components.
    pub(crate) fn longest(&self, path: &[&[u8]], peer: IpAddr) -> Option<(&Arc<Export>, usize)> {
        let mut node = self.nodes.get(&self.root)?;
        let mut found = None;
        for depth in 0..=path.len() {
            let export = node.export.as_ref().filter(|e| !e.denies(peer));
            found = export.map(|export| (export, depth)).or(found);
            let child = path.get(depth).and_then(|name| node.children.get(*name));
            match child.and_then(|id| self.nodes.get(id)) {
                Some(child) => node = child,
                None => break,
            }
        }
        found
    }

    /// How the exports know this host.
    pub(crate) fn standing(&self, peer: IpAddr) -> Standing {
        let of_export = |export: &Arc<Export>| match export.access(peer) {
            Access::Granted(rule) if rule.hosts != Hosts::Any => Standing::Listed,
            Access::Granted(_) | Access::Undecided => Standing::Admitted,
            Access::Denied => Standing::Stranger,
        };
        let all = self.exports.values().map(of_export);
        all.max().unwrap_or(Standing::Stranger)
    }

    /// Whether a rule of an export names hosts.
    pub(crate) fn lists_hosts(&self) -> bool {
        self.exports.values().any(|e| e.lists_hosts())
    }

    /// The root.
    pub(crate) fn root(&self) -> u64 {
        self.root
    }

    /// A directory that this host may see, or may once a name is resolved.
    pub(crate) fn node(&self, id: u64, peer: IpAddr) -> Option<&Node> {
        let node = self.nodes.get(&id)?;
        let is_visible = |export: &Export| !export.denies(peer);
        (id == self.root || self.leads_to(node, &is_visible)).then_some(node)
    }

    /// Whether an export of this kind is at a directory or below it.
    fn leads_to(&self, node: &Node, is_wanted: &dyn Fn(&Export) -> bool) -> bool {
        let own = node.export.as_ref();
        let mut children = node.children.values().filter_map(|id| self.nodes.get(id));
        own.is_some_and(|export| is_wanted(export))
            || children.any(|child| self.leads_to(child, is_wanted))
    }

    /// The directory of this name in another one, if the host may see it.
    pub(crate) fn child(&self, parent: u64, name: &[u8], peer: IpAddr) -> Option<&Node> {
        let id = self.nodes.get(&parent)?.children.get(name)?;
        self.node(*id, peer)
    }

    /// The directories in another one that the host may see now, by name.
    pub(crate) fn children(&self, parent: u64, peer: IpAddr) -> Vec<(&[u8], &Node)> {
        let children = self.nodes.get(&parent).map(|node| node.children.iter());
        let is_visible = |export: &Export| export.rule(peer).is_some();
        children
            .into_iter()
            .flatten()
            .filter_map(|(name, id)| Some((name.as_slice(), self.nodes.get(id)?)))
            .filter(|(_, node)| self.leads_to(node, &is_visible))
            .collect()
    }

    /// The configuration of all exports with their verifiers, for the next tree.
    pub(crate) fn configs(&self) -> Vec<(ExportConfig, [u8; 8])> {
        let exports = self.exports.values();
        exports.map(|e| (e.config.clone(), e.verifier)).collect()
    }
}

impl Node {
    fn new(id: u64, parent: u64) -> Self {
        Self {
            id,
            parent,
            children: BTreeMap::new(),
            export: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;
    use backend::file::memory::{MemoryFiles, MemoryOptions};
    use io::sim::{Sim, SimConfig};

    fn config(id: u32, path: &str, hosts: &[Hosts]) -> (ExportConfig, [u8; 8]) {
        let config = ExportConfig {
            id,
            path: path.into(),
            files: Arc::new(MemoryFiles::new(MemoryOptions::default())),
            rules: hosts.iter().map(|h| Rule::read_write(*h)).collect(),
        };
        (config, [id as u8; 8])
    }

    fn simulated(test: impl FnOnce() + 'static) {
        Sim::new(1, SimConfig::default()).block_on(async move { test() });
    }

    #[test]
    fn hosts_see_only_the_way_to_their_exports() {
        simulated(|| {
            let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let configs = vec![
                config(1, "/tank/home", &[Hosts::Network(a, 32)]),
                config(2, "/tank/home/ann", &[Hosts::Network(b, 32)]),
                config(3, "/data", &[Hosts::Any]),
            ];
            let tree = Tree::new(configs, 5).unwrap();
            let names = |parent, peer| -> Vec<Vec<u8>> {
                let children = tree.children(parent, peer);
                children.iter().map(|(name, _)| name.to_vec()).collect()
            };
            assert_eq!(names(tree.root(), a), [b"data".to_vec(), b"tank".to_vec()]);
            let tank = tree.child(tree.root(), b"tank", a).unwrap();
            let home = tree.child(tank.id, b"home", a).unwrap();
            assert!(home.export.is_some() && home.parent == tank.id);
            assert!(names(home.id, a).is_empty());
            assert_eq!(names(home.id, b), [b"ann".to_vec()]);
            assert!(tree.export(1, a).is_some() && tree.export(1, b).is_none());
            let stranger = [192, 0, 2, 1].into();
            assert_eq!(names(tree.root(), stranger), [b"data".to_vec()]);
        });
    }

    #[test]
    fn paths_and_numbers_are_unique() {
        simulated(|| {
            let error = |configs| Tree::new(configs, 1).err();
            let same_path = vec![config(1, "/a/", &[]), config(2, "//a", &[])];
            assert_eq!(
                error(same_path),
                Some(ExportError::PathExists("//a".into()))
            );
            let same_number = vec![config(1, "/a", &[]), config(1, "/b", &[])];
            assert_eq!(error(same_number), Some(ExportError::NumberExists(1)));
            for path in ["a", "", "/a/../b", "/."] {
                let invalid = ExportError::InvalidPath(path.into());
                assert_eq!(error(vec![config(1, path, &[])]), Some(invalid));
            }
            assert!(Tree::new(vec![config(1, "/", &[])], 1).is_ok());
        });
    }
}
