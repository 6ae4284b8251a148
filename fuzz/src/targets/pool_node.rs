//! Tree nodes: a decoded node can be read completely, and encodes to the same bytes.

use pool::format::{Key, Node, NodeBuilder};

pub fn run(input: &[u8]) {
    let Ok(node) = Node::decode(input.to_vec()) else { return };
    if let Some(lost) = node.lost() {
        assert!(lost.start < lost.end && node.count() == 0);
        return assert_eq!(NodeBuilder::stand_in(lost, node.tree(), node.birth()), input);
    }
    let mut builder = NodeBuilder::new(node.level());
    for index in 0..node.count() {
        let key = node.key(index);
        assert!(key < Key::END && node.lower_bound(key) == index && node.upper_bound(key) == index + 1);
        if node.is_leaf() {
            builder.push_value(key, &node.value(index).to_value());
        } else {
            builder.push_child(key, &node.child(index));
        }
    }
    assert_eq!(builder.size(), node.body_size());
    let bytes = builder.take_node(node.count(), node.tree(), node.birth());
    assert!(bytes == input && builder.is_empty());
}
