/**
 * Options of the virtual machine for programs that run for seconds: half of the processor time of such a run is the
 * reading and compiling of classes. Archives of classes (https://dev.java/learn/jvm/cds-appcds/) are read where
 * there are any for this JDK; `classArchives.ts` makes them.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Distribution } from './distribution.ts';

/** The archive of the classes that a server, given by its folder, or a client, given by its jar, loads for a query. */
export const archiveOf = (program: string): string => `${program}.query.jsa`;

/** Class path of the server; an archive is of one class path. */
export const serverClassPath = (server: string): string => join(server, 'lib/*');

/** Classes of released libraries are not verified again, and warnings of the virtual machine would be taken for rows. */
export const common: readonly string[] = [
  '-XX:+UnlockDiagnosticVMOptions',
  '-XX:-BytecodeVerificationRemote',
  '-Xlog:disable',
];
/**
 * Options of a program that ends before thorough compilation and a collector with threads of its own are worth it: a server for the
 * thousand queries of a client's suite, too.
 */
export const shortRun: readonly string[] = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
const client = ['-Xmx512M', ...shortRun, '--enable-native-access=ALL-UNNAMED'];

/** Options that read an archive, where there is one: without it the virtual machine reads its own. */
export const readArchive = (archive: string): readonly string[] =>
  existsSync(archive) ? [...common, `-XX:SharedArchiveFile=${archive}`] : common;

/** Options that write an archive when the program ends. */
export const writeArchive = (archive: string): readonly string[] => [...common, `-XX:ArchiveClassesAtExit=${archive}`];

/** Arguments of `java` that start Trino's command line, before its own. */
export function commandLine(
  { cli }: Pick<Distribution, 'cli'>,
  archive = readArchive(archiveOf(cli)),
): readonly string[] {
  return [...client, ...archive, '-jar', cli];
}

/** Arguments of `java` that start a class of `programs/`, which uses the JDBC driver, before its own. */
export function javaProgram(
  { jdbc, programs }: Pick<Distribution, 'jdbc' | 'programs'>,
  name: 'Query' | 'Transact',
  archive = readArchive(archiveOf(programs)),
): readonly string[] {
  return [...client, ...archive, '-cp', `${jdbc}:${programs}`, name];
}
