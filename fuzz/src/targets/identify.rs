//! Identify data structures and the namespace identification descriptors.

use nvmf::wire::identify::{
    IDENTIFY_LEN, IdentifyController, IdentifyNamespace, NamespaceDescriptor, descriptor_list, parse_descriptor_list,
};

pub fn run(input: &[u8]) {
    if let Ok(controller) = IdentifyController::parse(input) {
        let _ = controller.in_capsule_data_max();
        let _ = controller.subnqn.parse();
    }
    if let Ok(namespace) = IdentifyNamespace::parse(input)
        && let Some(size) = namespace.block_size()
    {
        assert!((512..=65536).contains(&size));
    }
    if let Ok(descriptors) = parse_descriptor_list(input) {
        assert!(descriptors.len() * 5 <= IDENTIFY_LEN);
        let list = descriptor_list(&descriptors);
        let again: Vec<NamespaceDescriptor> = parse_descriptor_list(&list[..]).expect("own list");
        assert_eq!(again, descriptors);
    }
}
