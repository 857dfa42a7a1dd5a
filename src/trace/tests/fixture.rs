//! Synthetic reports, made by SQL in memory.

use std::path::Path;

use rusqlite::Connection;

use crate::trace::{Trace, TraceError, Window, import_bytes};

/// The tables of a report of schema 3.20 that the import reads, with the columns that matter in their order.
pub const TABLES: &str = r#"
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER);
    CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER);
    CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
        demangledName INTEGER NOT NULL, shortName INTEGER, graphNodeId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER,
        srcDeviceId INTEGER, dstDeviceId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        globalPid INTEGER, value INTEGER, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER,
        deprecatedSyncType INTEGER, syncType INTEGER NOT NULL);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
        globalTid INTEGER, textId INTEGER, domainId INTEGER);
"#;

/// A process and a thread of it, as nsys numbers them.
pub const PROCESS: i64 = 7 << 24;
pub const THREAD: i64 = PROCESS + 3;

/// A report under construction.
pub struct Fixture(pub Connection);

impl Fixture {
    /// No tables.
    pub fn empty() -> Self {
        Self(Connection::open_in_memory().unwrap())
    }

    /// Schema 3.20.3 without events.
    pub fn new() -> Self {
        Self::empty().sql(TABLES).sql(
            "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.20.3'),
                ('EXPORT_PRODUCT_VERSION', '2025.3.2.0');
             INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaStreamSynchronize_v3020'),
                (3, 'gemm_f32f32'), (4, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (5, 'cudaMalloc_v3020');",
        )
    }

    /// Runs statements.
    pub fn sql(self, statements: &str) -> Self {
        self.0.execute_batch(statements).unwrap();
        self
    }

    pub fn kernel(self, start: i64, end: i64, name: i64) -> Self {
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName) VALUES (?, ?, 0, ?, ?)";
        self.0.execute(sql, (start, end, PROCESS, name)).unwrap();
        self
    }

    pub fn call(self, start: i64, end: i64, name: i64) -> Self {
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId) VALUES (?, ?, ?, ?)";
        self.0.execute(sql, (start, end, THREAD, name)).unwrap();
        self
    }

    /// A copy of 1000 bytes from pageable host memory.
    pub fn upload(self, start: i64, end: i64) -> Self {
        let sql = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, ?, 1000, 1, 0, 2, NULL, NULL)";
        self.0.execute(sql, (start, end, PROCESS)).unwrap();
        self
    }

    pub fn range(self, start: i64, end: i64, text: &str) -> Self {
        let sql = "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL, 0)";
        self.0.execute(sql, (start, end, text, THREAD)).unwrap();
        self
    }

    pub fn bytes(mut self) -> Vec<u8> {
        self.0.serialize("main").unwrap().to_vec()
    }

    pub fn import(self) -> Result<Trace, TraceError> {
        import_bytes(Path::new("made.sqlite"), &self.bytes(), &Window::default())
    }

    /// What the import says against it.
    pub fn refusal(self) -> String {
        self.import().unwrap_err().to_string()
    }
}
