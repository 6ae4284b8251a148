//! Links and removals.
//!
//! **Owns** the rules of POSIX for `link`, `unlink` and `rmdir`. **Called by** [`super::FileSystem`], in the turn of the
//! directory. **Invariants**: an operation that fails has changed nothing; the order of checks is Linux's: search, existence,
//! permission, kind, space.

use backend::file::permission::{check_add, check_remove};
use backend::file::{
    Caller, Change, FileError, FileKind, FileResult, Handle, Linked, Name, RemoveKind, Removed,
};

use super::create::LINKS_MAX;
use super::entries::{delete_entry, dirent_of, put_entry};
use super::inner::Inner;
use super::numbers::Files;
use super::object::now;
use super::store::{Purpose, Store, Transaction};

impl<S: Store> Inner<S> {
    pub(super) async fn link(
        &self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
    ) -> FileResult<Linked> {
        let kind = self.inode(of).await?.kind;
        let mut directory = self.searched(caller, directory).await?;
        let (found, place) = self.place(directory.number, name).await?;
        if found.is_some() {
            return Err(FileError::Exists);
        }
        check_add(caller, &directory.permissions(), false)?;
        if kind == FileKind::Directory {
            return Err(FileError::NotOwner);
        }
        let _turn = self.turns.take(self.number(of)?).await;
        let mut object = self.object(of).await?;
        match object.inode.links {
            // Open, and already removed.
            0 => return Err(FileError::NotFound),
            links if links >= LINKS_MAX => return Err(FileError::Links),
            _ => {}
        }

        let (place, time) = (place?, now());
        let before = (self.attributes(&object), self.attributes(&directory));
        let mut transaction = Transaction::new();
        self.add_name(&mut transaction, &mut object, place).await?;
        put_entry(&mut transaction, place, &dirent_of(&object, name));
        object.set_changed(time);
        directory.gain_entry(false);
        directory.set_modified(time);
        transaction.put_inode(object.number, object.inode);
        transaction.put_inode(directory.number, directory.inode);
        self.commit(transaction, Purpose::Use, Files::Same).await?;
        self.tell_added(directory.number, name, &object);
        Ok(Linked {
            object: self.change(before.0, &object),
            directory: self.change(before.1, &directory),
        })
    }

    pub(super) async fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
    ) -> FileResult<Removed> {
        let mut directory = self.searched(caller, directory).await?;
        let found = self.find(directory.number, name).await?;
        let found = found.ok_or(FileError::NotFound)?;
        self.check_entry(&found).await?;
        let _turn = self.turns.take(found.dirent.target.object).await;
        let mut object = self.target(&found.dirent).await?;
        check_remove(caller, &directory.permissions(), &object.permissions())?;
        match (object.is_directory(), kind) {
            (true, RemoveKind::File) => return Err(FileError::IsDirectory),
            (false, RemoveKind::Directory) => return Err(FileError::NotDirectory),
            (true, _) if self.has_names(&object).await? => return Err(FileError::NotEmpty),
            _ => {}
        }

        let time = now();
        let before = (self.attributes(&object), self.attributes(&directory));
        let mut transaction = Transaction::new();
        delete_entry(&mut transaction, found.place);
        let is_directory = object.is_directory();
        self.drop_name(&mut transaction, &mut object, found.place)
            .await?;
        object.set_changed(time);
        directory.lose_entry(is_directory)?;
        directory.set_modified(time);
        transaction.put_inode(directory.number, directory.inode);
        let doomed = self.lose_name(&mut transaction, object.clone()).await?;
        self.commit_removal(transaction, Purpose::Release, doomed)
            .await?;
        self.tell_removed(directory.number, &found.dirent.name, &object);
        Ok(Removed {
            object: Change {
                before: before.0,
                after: self.attributes(&object),
            },
            directory: self.change(before.1, &directory),
        })
    }
}
