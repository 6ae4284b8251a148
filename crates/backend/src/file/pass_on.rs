//! File systems over other ones: the operations that they pass on unchanged.
//!
//! **Owns** [`crate::pass_on`]. **Called by** implementations of [`super::FileBackend`] that have another one in a field. **Invariant**: an
//! operation that is passed on does nothing else.

/// Implements operations of [`crate::file::FileBackend`], given by name, by those of the file system in a field of `self`:
/// `pass_on! { files: limits, root }`. The calling crate knows crate `io`.
#[macro_export]
macro_rules! pass_on {
    ($files:tt: $($operation:ident),* $(,)?) => {
        $($crate::pass_on!(@by_name $files $operation);)*
    };
    (@by_name $files:tt limits) => { $crate::pass_on!(@all $files: limits() -> $crate::file::FileLimits;); };
    (@by_name $files:tt root) => { $crate::pass_on!(@all $files: root() -> $crate::file::Handle;); };
    (@by_name $files:tt is_volatile) => {
        $crate::pass_on!(@all $files: is_volatile(directory: $crate::file::Handle) -> bool;);
    };
    (@by_name $files:tt space) => { $crate::pass_on!(@caller $files: space() -> $crate::file::FileSpace;); };
    (@by_name $files:tt lookup) => {
        $crate::pass_on!(@caller $files: lookup(directory: $crate::file::Handle, name: &$crate::file::Name) -> $crate::file::Attributes;);
    };
    (@by_name $files:tt parent) => {
        $crate::pass_on!(@caller $files: parent(directory: $crate::file::Handle) -> $crate::file::Attributes;);
    };
    (@by_name $files:tt attributes) => { $crate::pass_on!(@of $files: attributes() -> $crate::file::Attributes;); };
    (@by_name $files:tt numbered) => {
        $crate::pass_on!(@all $files: numbered(object: u64) -> $crate::file::FileReply<$crate::file::Attributes>;);
    };
    (@by_name $files:tt set_attributes) => {
        $crate::pass_on!(@caller $files: set_attributes(of: $crate::file::Handle, set: $crate::file::SetAttributes,
            stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Change>;);
    };
    (@by_name $files:tt access) => {
        $crate::pass_on!(@caller $files: access(of: $crate::file::Handle, wanted: $crate::file::Access) -> $crate::file::Access;);
    };
    (@by_name $files:tt open) => {
        $crate::pass_on!(@caller $files: open(of: $crate::file::Handle, access: $crate::file::Access) -> $crate::file::Hold;);
    };
    (@by_name $files:tt create) => {
        $crate::pass_on!(@caller $files: create(directory: $crate::file::Handle, name: &$crate::file::Name, new: $crate::file::NewFile,
            if_exists: $crate::file::IfExists, stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Created>;);
    };
    (@by_name $files:tt read_link) => { $crate::pass_on!(@of $files: read_link() -> Vec<u8>;); };
    (@by_name $files:tt link) => {
        $crate::pass_on!(@caller $files: link(of: $crate::file::Handle, directory: $crate::file::Handle, name: &$crate::file::Name,
            stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Linked>;);
    };
    (@by_name $files:tt remove) => {
        $crate::pass_on!(@caller $files: remove(directory: $crate::file::Handle, name: &$crate::file::Name,
            kind: $crate::file::RemoveKind, stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Removed>;);
    };
    (@by_name $files:tt rename) => {
        $crate::pass_on!(@caller $files: rename(from: $crate::file::Handle, old: &$crate::file::Name, to: $crate::file::Handle,
            new: &$crate::file::Name, mode: $crate::file::RenameMode, stability: $crate::file::Stability)
            -> $crate::file::Done<$crate::file::Renamed>;);
    };
    (@by_name $files:tt read_directory) => {
        $crate::pass_on!(@caller $files: read_directory(directory: $crate::file::Handle, after: $crate::file::Cookie,
            entries_max: usize, with_attributes: bool) -> $crate::file::Listing;);
    };
    (@by_name $files:tt read) => {
        $crate::pass_on!(@of $files: read(offset: u64, len: usize) -> $crate::file::ReadData;);
    };
    (@by_name $files:tt write) => {
        $crate::pass_on!(@caller $files: write(of: $crate::file::Handle, at: $crate::file::WriteAt, data: ::io::SharedBuf,
            stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Written>;);
    };
    (@by_name $files:tt commit) => { $crate::pass_on!(@of $files: commit() -> $crate::Durable;); };
    (@by_name $files:tt commit_all) => {
        $crate::pass_on!(@all $files: commit_all() -> $crate::file::FileReply<$crate::Durable>;);
    };
    (@by_name $files:tt allocate) => {
        $crate::pass_on!(@caller $files: allocate(of: $crate::file::Handle, range: ::std::ops::Range<u64>,
            how: $crate::file::Allocate, grows: bool) -> $crate::file::Change;);
    };
    (@by_name $files:tt seek) => {
        $crate::pass_on!(@of $files: seek(offset: u64, to: $crate::file::Seek) -> u64;);
    };
    (@by_name $files:tt seek_within) => {
        $crate::pass_on!(@of $files: seek_within(range: ::std::ops::Range<u64>, to: $crate::file::Seek) -> Option<u64>;);
    };
    (@by_name $files:tt copy) => {
        $crate::pass_on!(@caller $files: copy(from: ($crate::file::Handle, u64), to: ($crate::file::Handle, u64), len: u64) -> u64;);
    };
    (@by_name $files:tt xattr) => {
        $crate::pass_on!(@caller $files: xattr(of: $crate::file::Handle, name: &[u8]) -> Vec<u8>;);
    };
    (@by_name $files:tt xattrs) => {
        $crate::pass_on!(@caller $files: xattrs(of: $crate::file::Handle) -> Vec<Vec<u8>>;);
    };
    (@by_name $files:tt set_xattr) => {
        $crate::pass_on!(@caller $files: set_xattr(of: $crate::file::Handle, name: &[u8], value: Option<Vec<u8>>,
            how: $crate::file::SetXattr, stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Change>;);
    };
    (@by_name $files:tt acl) => { $crate::pass_on!(@of $files: acl() -> Option<$crate::file::Acl>;); };
    (@by_name $files:tt set_acl) => {
        $crate::pass_on!(@caller $files: set_acl(of: $crate::file::Handle, acl: Option<$crate::file::Acl>,
            stability: $crate::file::Stability) -> $crate::file::Done<$crate::file::Change>;);
    };
    (@by_name $files:tt watch) => {
        $crate::pass_on!(@all $files: watch(directory: $crate::file::Handle) -> $crate::file::FileReply<$crate::file::Watch>;);
    };
    (@caller $files:tt: $operation:ident($($given:ident: $kind:ty),*) -> $reply:ty;) => {
        $crate::pass_on!(@all $files: $operation(caller: &$crate::file::Caller $(, $given: $kind)*) -> $crate::file::FileReply<$reply>;);
    };
    (@of $files:tt: $operation:ident($($given:ident: $kind:ty),*) -> $reply:ty;) => {
        $crate::pass_on!(@all $files: $operation(of: $crate::file::Handle $(, $given: $kind)*) -> $crate::file::FileReply<$reply>;);
    };
    (@all $files:tt: $operation:ident($($given:ident: $kind:ty),*) -> $reply:ty;) => {
        fn $operation(&self, $($given: $kind),*) -> $reply {
            self.$files.$operation($($given),*)
        }
    };
}
