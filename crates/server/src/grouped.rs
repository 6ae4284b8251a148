//! Group commit of changes that only edit the configuration: the changes in the queue become one write of its file.
//!
//! **Owns** the plan, the write and the effect of such changes. **Called by** changes of exports, on the server's shard. **Invariants**: a change
//! is answered after its write is durable; two changes of a group name no object in common, so that each is planned against
//! the configuration before the group; a change that fails does not fail another one: if a group as a whole is refused or cannot be
//! written, its changes are carried out one by one. Decision 0416.

use crate::Result;
use crate::config::Edit;
use crate::group_queue::{Groups, QueuedChange};
use crate::server::Server;
use io::sync::oneshot;

/// A change that only edits the configuration.
pub(crate) trait ConfigChange: 'static {
    /// The answer.
    type Reply: 'static;

    /// The names of the objects that the change looks at or changes: disks and exports.
    fn names(&self) -> Vec<String>;

    /// The edits, from the present configuration. Errors: why the change is refused.
    fn plan(&mut self, server: &Server) -> Result<Vec<Box<dyn Edit>>>;

    /// Puts the written change into effect.
    fn take_effect(self, server: &Server) -> Result<Self::Reply>;
}

struct Change<C: ConfigChange> {
    change: C,
    answer: oneshot::Sender<Result<C::Reply>>,
}

impl<C: ConfigChange> QueuedChange<Server> for Change<C> {
    fn names(&self) -> Vec<String> {
        self.change.names()
    }

    fn plan(&mut self, server: &Server) -> Result<Vec<Box<dyn Edit>>> {
        self.change.plan(server)
    }

    fn end(self: Box<Self>, server: &Server, written: Result<()>) {
        let Change { change, answer } = *self;
        answer.send(written.and_then(|()| change.take_effect(server)));
    }
}

/// Takes a change out of the queue if its client stops waiting.
struct Withdrawal<'a> {
    groups: &'a Groups<Server>,
    number: u64,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.groups.withdraw(self.number);
    }
}

impl Server {
    /// Carries out a change together with the others in the queue. Errors: the refusal of the change; `Unavailable` while the server shuts down;
    /// `File` or `Edited` if the configuration cannot be written.
    pub(crate) async fn change<C: ConfigChange>(&self, change: C) -> Result<C::Reply> {
        let (answer, answered) = oneshot::channel();
        let number = self.groups.add(Box::new(Change { change, answer }));
        let waits = Withdrawal {
            groups: &self.groups,
            number,
        };
        let turn = self.turn().await;
        // Another change that had its turn before may have taken this one into its group.
        if self.groups.has(number) {
            let _turn = turn?;
            while self.groups.has(number) {
                self.commit(self.groups.next()).await;
            }
        }
        drop(waits);
        answered.await.unwrap_or(Err(crate::Error::Unavailable(
            "ending a change that was interrupted",
        )))
    }

    /// Writes the configuration once for a group of changes, and answers them.
    async fn commit(&self, group: Vec<Box<dyn QueuedChange<Server>>>) {
        let mut planned = Vec::new();
        let mut edits = Vec::new();
        for mut change in group {
            match change.plan(self) {
                Ok(more) => {
                    edits.extend(more);
                    planned.push(change);
                }
                Err(refused) => change.end(self, Err(refused)),
            }
        }
        let written = match planned.len() {
            0 => return,
            _ => self.write(&edits).await,
        };
        match written {
            Err(_) if planned.len() > 1 => {
                for change in planned {
                    Box::pin(self.commit(vec![change])).await;
                }
            }
            Err(failed) => {
                if let Some(change) = planned.pop() {
                    change.end(self, Err(failed));
                }
            }
            Ok(()) => {
                for change in planned {
                    change.end(self, Ok(()));
                }
            }
        }
    }

    async fn write(&self, edits: &[Box<dyn Edit>]) -> Result<()> {
        let edits: Vec<&dyn Edit> = edits.iter().map(|e| &**e).collect();
        let new = self.edited(&edits)?;
        self.store(new).await
    }
}
