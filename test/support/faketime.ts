import { existsSync, readdirSync } from 'node:fs';
import { requireComponent } from './components.ts';

/** The library of the package faketime that answers a process with another time of day. */
const library = readdirSync('/usr/lib')
  .map((folder) => `/usr/lib/${folder}/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file));

/** Whether the time of day of processes can be set; throws with CI=true when it cannot. */
export const hasFaketime = (): boolean =>
  requireComponent('libfaketime', library !== undefined, 'install the package libfaketime');

/**
 * Variables of a process whose time of day is set by a file while it runs; its monotonic clock is left alone, as in
 * reality.
 * @param offsetFile holds the difference in seconds with its sign, e.g. `-3600`; looked at once a second
 */
export const faketimeEnvironment = (offsetFile: string): Readonly<Record<string, string>> => ({
  LD_PRELOAD: library ?? '',
  FAKETIME_TIMESTAMP_FILE: offsetFile,
  FAKETIME_CACHE_DURATION: '1',
  FAKETIME_DONT_FAKE_MONOTONIC: '1',
});
