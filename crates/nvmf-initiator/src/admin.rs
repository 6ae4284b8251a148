//! Admin commands as typed calls (Base 5).
//!
//! A command that was not sent when the connection broke waits for the next connection. A command that was sent fails with
//! [`Error::Disconnected`].

use io::IoBuf;

use super::controller::Controller;
use super::error::{Error, Result};
use super::limits::{LOG_LEN_MAX, TRANSFER_MAX};
use super::queue::{Command, Data, Replay, checked};
use nvmf::wire::command::{Cid, Nsid, Sqe};
use nvmf::wire::fabrics::Property;
use nvmf::wire::features::{self, Select, fid};
use nvmf::wire::identify::{
    self, IDENTIFY_LEN, IdentifyController, IdentifyNamespace, NamespaceDescriptor, NamespaceList,
    cns,
};
use nvmf::wire::log::{
    AnaLog, CommandEffectsLog, ErrorEntry, FirmwareSlotLog, GetLogPage, ReservationNotification,
    SmartLog, lid,
};
use nvmf::wire::opcode::admin;
use nvmf::wire::read_prefix;

impl Controller {
    /// Identify with any CNS. Returns the 4096 bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] if the controller does not have the structure or the namespace.
    pub async fn identify(&self, cns: u8, nsid: Nsid, csi: u8) -> Result<IoBuf> {
        let sqe = identify::command(cns, nsid, csi);
        let (buf, _) = self.read_admin(sqe, IDENTIFY_LEN, true).await?;
        Ok(buf)
    }

    /// Identify Controller.
    ///
    /// # Errors
    /// As [`Controller::identify`].
    pub async fn identify_controller(&self) -> Result<Box<IdentifyController>> {
        let buf = self.identify(cns::CONTROLLER, Nsid::NONE, 0).await?;
        Ok(Box::new(IdentifyController::parse(&buf)?))
    }

    /// Identify Namespace, NVM command set.
    ///
    /// # Errors
    /// As [`Controller::identify`].
    pub async fn identify_namespace(&self, nsid: Nsid) -> Result<Box<IdentifyNamespace>> {
        let buf = self.identify(cns::NAMESPACE, nsid, 0).await?;
        Ok(Box::new(IdentifyNamespace::parse(&buf)?))
    }

    /// Returns the active namespaces.
    ///
    /// # Errors
    /// As [`Controller::identify`].
    pub async fn active_namespaces(&self) -> Result<Vec<Nsid>> {
        let mut all = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(Nsid::NONE);
            let buf = self.identify(cns::ACTIVE_NAMESPACES, after, 0).await?;
            let list: NamespaceList = read_prefix("namespace list", &buf)?;
            let before = all.len();
            // A list that does not ascend would be read for ever.
            all.extend(list.iter().filter(|nsid| *nsid > after));
            if all.len() - before < identify::NAMESPACE_LIST_MAX {
                return Ok(all);
            }
        }
    }

    /// Returns the identification descriptors of a namespace.
    ///
    /// # Errors
    /// As [`Controller::identify`].
    pub async fn namespace_descriptors(&self, nsid: Nsid) -> Result<Vec<NamespaceDescriptor>> {
        let buf = self.identify(cns::NAMESPACE_DESCRIPTORS, nsid, 0).await?;
        Ok(identify::parse_descriptor_list(&buf)?)
    }

    /// Get Log Page, in as many commands as the controller's transfer limit requires. Only the last command clears the page's
    /// event, unless `get` retains it.
    ///
    /// # Errors
    /// [`Error::Refused`] if the controller does not have the page; [`Error::Invalid`] if more than [`LOG_LEN_MAX`] bytes are
    /// requested.
    pub async fn log_page(&self, get: GetLogPage, nsid: Nsid) -> Result<Vec<u8>> {
        if get.len == 0 || get.len > LOG_LEN_MAX || !get.len.is_multiple_of(4) {
            return Err(Error::Invalid(
                "a log page's length is a multiple of 4, and limited",
            ));
        }
        let mut page = Vec::new();
        while (page.len() as u64) < get.len {
            let done = page.len() as u64;
            let len = (get.len - done).min(u64::from(self.transfer_max()));
            let last = done + len == get.len;
            let part = GetLogPage {
                len,
                offset: get.offset + done,
                retain_event: get.retain_event || !last,
                ..get
            };
            let (buf, received) = self
                .read_admin(part.to_sqe(nsid), len as usize, false)
                .await?;
            page.extend_from_slice(&buf[..received]);
            if (received as u64) < len {
                break;
            }
        }
        Ok(page)
    }

    /// The SMART / health log of the controller.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn smart_log(&self) -> Result<SmartLog> {
        self.log(lid::SMART, Nsid::ALL, "SMART log").await
    }

    /// The firmware slot log.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn firmware_log(&self) -> Result<FirmwareSlotLog> {
        self.log(lid::FIRMWARE_SLOT, Nsid::ALL, "firmware slot log")
            .await
    }

    /// The commands supported and effects log.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn command_effects(&self) -> Result<Box<CommandEffectsLog>> {
        self.log(lid::COMMAND_EFFECTS, Nsid::ALL, "command effects log")
            .await
            .map(Box::new)
    }

    /// Returns the oldest reservation notification; its count is 0 if there is none.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn reservation_notification(&self) -> Result<ReservationNotification> {
        self.log(
            lid::RESERVATION_NOTIFICATION,
            Nsid::NONE,
            "reservation notification",
        )
        .await
    }

    /// Returns the namespaces that changed since the page was last read; `None` if the list overflowed.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn changed_namespaces(&self) -> Result<Option<Vec<Nsid>>> {
        let list: NamespaceList = self
            .log(lid::CHANGED_NAMESPACES, Nsid::ALL, "changed namespaces")
            .await?;
        let changed: Vec<Nsid> = list.iter().collect();
        Ok(if changed.first() == Some(&Nsid::ALL) {
            None
        } else {
            Some(changed)
        })
    }

    /// Returns the newest `count` entries of the error log, without unused entries.
    ///
    /// # Errors
    /// As [`Controller::log_page`].
    pub async fn error_log(&self, count: u8) -> Result<Vec<ErrorEntry>> {
        let len = u64::from(count.max(1)) * size_of::<ErrorEntry>() as u64;
        let page = self
            .log_page(GetLogPage::new(lid::ERROR, len), Nsid::ALL)
            .await?;
        let entries = page
            .chunks_exact(size_of::<ErrorEntry>())
            .map(|e| read_prefix("error log", e));
        let entries = entries.collect::<std::result::Result<Vec<ErrorEntry>, _>>()?;
        Ok(entries
            .into_iter()
            .filter(|e| e.error_count.get() != 0)
            .collect())
    }

    /// The ANA log page.
    ///
    /// # Errors
    /// As [`Controller::log_page`]; [`Error::Malformed`].
    pub async fn ana_log(&self) -> Result<AnaLog> {
        let id = self.info();
        let (groups, namespaces) = (
            u64::from(id.identify.nanagrpid.get()),
            u64::from(id.identify.mnan.get()),
        );
        let namespaces = if namespaces == 0 {
            u64::from(id.identify.nn.get())
        } else {
            namespaces
        };
        let len = (16 + groups * 32 + namespaces * 4).min(LOG_LEN_MAX);
        let page = self
            .log_page(GetLogPage::new(lid::ANA, len), Nsid::NONE)
            .await?;
        Ok(AnaLog::parse(&page)?)
    }

    /// Reads a log page that is one structure.
    async fn log<T: zerocopy::FromBytes>(
        &self,
        lid: u8,
        nsid: Nsid,
        what: &'static str,
    ) -> Result<T> {
        let page = self
            .log_page(GetLogPage::new(lid, size_of::<T>() as u64), nsid)
            .await?;
        Ok(read_prefix(what, &page)?)
    }

    /// Get Features without data. Returns DW0 of the completion.
    ///
    /// # Errors
    /// [`Error::Refused`] if the controller does not have the feature.
    pub async fn get_feature(&self, fid: u8, select: Select, nsid: Nsid) -> Result<u32> {
        let result = self
            .admin(features::get(fid, select, nsid), Data::None)
            .await?;
        Ok(result as u32)
    }

    /// Set Features without data. Returns DW0 of the completion.
    ///
    /// # Errors
    /// [`Error::Refused`] if the controller does not have the feature or cannot change it.
    pub async fn set_feature(&self, fid: u8, value: u32, nsid: Nsid) -> Result<u32> {
        let result = self
            .admin(features::set(fid, value, nsid), Data::None)
            .await?;
        Ok(result as u32)
    }

    /// Returns the host identifier that the controller has stored (Base 5.27.1.25).
    ///
    /// # Errors
    /// As [`Controller::get_feature`].
    pub async fn host_identifier(&self) -> Result<[u8; 16]> {
        let mut sqe = features::get(fid::HOST_IDENTIFIER, Select::Current, Nsid::NONE);
        sqe.cdw11 = 1.into();
        let (buf, _) = self.read_admin(sqe, 16, true).await?;
        Ok(read_prefix("host identifier", &buf)?)
    }

    /// Abort. Returns whether the command was aborted (Base 5.1).
    ///
    /// # Errors
    /// [`Error::Refused`] if too many aborts are outstanding.
    pub async fn abort(&self, sqid: u16, cid: Cid) -> Result<bool> {
        let mut sqe = Sqe::new(admin::ABORT, Nsid::NONE);
        sqe.cdw10 = (u32::from(cid.0) << 16 | u32::from(sqid)).into();
        let result = self.admin(sqe, Data::None).await?;
        Ok(result & 1 == 0)
    }

    /// Sends one Keep Alive, in addition to the automatic ones.
    ///
    /// # Errors
    /// Those of any command.
    pub async fn keep_alive(&self) -> Result<()> {
        self.admin(Sqe::new(admin::KEEP_ALIVE, Nsid::NONE), Data::None)
            .await
            .map(drop)
    }

    /// Reads a controller property of 8 (`wide`) or 4 bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no property at this offset.
    pub async fn property(&self, offset: u32, wide: bool) -> Result<u64> {
        self.admin(Property::get(offset, wide), Data::None).await
    }

    /// Most data of one command, bytes: the lesser of MDTS and the largest buffer.
    #[must_use]
    pub fn transfer_max(&self) -> u32 {
        let info = self.inner.info();
        match u32::from(info.identify.mdts) {
            0 => TRANSFER_MAX,
            mdts => 1u32
                .checked_shl(12 + u32::from(info.cap.mpsmin()) + mdts)
                .filter(|limit| *limit != 0)
                .map_or(TRANSFER_MAX, |limit| limit.min(TRANSFER_MAX)),
        }
    }

    /// Sends a command that reads `len` bytes. Returns the buffer and the bytes received.
    async fn read_admin(&self, sqe: Sqe, len: usize, whole: bool) -> Result<(IoBuf, usize)> {
        let buf = io::pool().alloc(len).await;
        let command = Command {
            sqe,
            data: Data::In(buf),
            replay: Replay::No,
            untimed: false,
            whole,
        };
        let finished = self.inner.admin.execute(command).await;
        checked(finished.result)?;
        match finished.data {
            Data::In(buf) => Ok((buf, finished.received as usize)),
            _ => unreachable!("a command gives back the data it was given"),
        }
    }

    /// Sends a command that reads no data. Returns DW1:DW0 of the completion.
    async fn admin(&self, sqe: Sqe, data: Data) -> Result<u64> {
        let command = Command {
            sqe,
            data,
            replay: Replay::No,
            untimed: false,
            whole: true,
        };
        checked(self.inner.admin.execute(command).await.result).map(|cqe| cqe.result())
    }
}
