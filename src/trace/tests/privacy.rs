//! What a report knows of people and machines does not get into a trace.

use super::fixture::Fixture;
use crate::trace::{csv, markdown};

#[test]
fn planted_secrets_are_never_kept() {
    let trace = Fixture::new()
        .sql(
            "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
             INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', 'SECRET-command'),
                ('PROCESS_0:ENVIRONMENT', 'TOKEN=SECRET-token'), ('DEVICE_DISPLAY_NAME', 'SECRET-host');
             INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_INPUT_FILE', '/home/SECRET-user/run.nsys-rep');
             CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
             INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'x', 'Hostname', 1, 'SECRET-hostname');
             CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
             INSERT INTO PROCESSES VALUES (117440512, 7, 'SECRET-process');
             CREATE TABLE ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
             INSERT INTO ThreadNames VALUES (90, 0, 117440515);
             CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
             INSERT INTO ProcessStreams VALUES (117440512, 91, 92);
             CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, contentId INTEGER, globalPid INTEGER);
             INSERT INTO ANALYSIS_FILE VALUES (1, '/home/SECRET-user/.env', 92, 117440512);
             CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, text TEXT);
             INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 'SECRET-diagnostic');
             INSERT INTO StringIds VALUES (90, 'SECRET-thread'), (91, 'SECRET-file'), (92, 'load SECRET-output'),
                (93, 'nccl SECRET-log');",
        )
        .kernel(100, 200, 3)
        .call(0, 50, 1)
        .import()
        .unwrap();
    assert_eq!((trace.api.len(), trace.kernels.len()), (1, 1));
    for text in [serde_json::to_string(&trace).unwrap(), markdown(&trace), csv(&trace), format!("{trace:?}")] {
        assert!(!text.contains("SECRET"), "{text}");
        assert!(text.contains("gemm_f32f32"), "{text}");
    }
}
