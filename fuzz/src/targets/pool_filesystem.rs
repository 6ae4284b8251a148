//! Values of filesystems: a decoded value encodes to the same bytes.

use pool::format::filesystem::{
    Dirent, Header, Inode, Link, Orphan, Xattr, decode_acl, decode_files, encode_acl, encode_files,
};

pub fn run(input: &[u8]) {
    if let Ok(inode) = Inode::decode(input) {
        assert!(inode.encode()[..] == *input);
    }
    if let Ok(dirent) = Dirent::decode(input) {
        assert!(dirent.encode()[..] == *input);
    }
    if let Ok(xattr) = Xattr::decode(input) {
        assert!(xattr.encode()[..] == *input);
    }
    if let Ok(acl) = decode_acl(input) {
        assert!(encode_acl(&acl)[..] == *input);
    }
    if let Ok(link) = Link::decode(input) {
        assert!(link.encode()[..] == *input);
    }
    if let Ok(orphan) = Orphan::decode(input) {
        assert!(orphan.encode()[..] == *input);
    }
    if let Ok(header) = Header::decode(input) {
        assert!(header.encode()[..] == *input);
    }
    if let Ok(files) = decode_files(input) {
        assert!(encode_files(files)[..] == *input);
    }
}
