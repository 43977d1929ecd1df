import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { type Followed, FollowedFiles } from '../../config/followedFiles.ts';
import type { ProductNames } from '../../model/names.ts';
import { openUserMapping, type UserMapping, type UserMappingSettings } from './userMapping.ts';

export interface FollowedUserMappingOptions {
  readonly names: ProductNames;
  /** Milliseconds between two reads of the file. */
  readonly refreshTime: number;
  readonly logger: Logger;
}

/**
 * Creates the configured mapping and follows its file, if any. Null if certificates do not identify users.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, at the start
 */
export async function followUserMapping(
  settings: UserMappingSettings,
  { names, refreshTime, logger }: FollowedUserMappingOptions,
): Promise<Followed<UserMapping> | null> {
  const path = settings.clientCertificateUserMappingFile;
  const current = await openUserMapping(settings, names);
  if (current === null) return null;
  if (path === null) return { current, stop: () => undefined };
  // The settings are unchanged, and so is their result.
  const open = async () => (await openUserMapping(settings, names)) ?? current;
  return await followRules(path, open, refreshTime, logger);
}

/**
 * Follows a file of user mappings.
 * @throws as `open` if the file cannot be used at the start
 */
export async function followRules<T>(
  file: string,
  open: () => Promise<T>,
  refreshTime: number,
  logger: Logger,
): Promise<Followed<T>> {
  const text = () => readFile(file, 'utf8').catch(() => null);
  const report = (reason: string | null) => {
    if (reason === null) logger.info({ file }, 'changed file of user mappings taken');
    else logger.error({ file, reason }, 'changed file of user mappings refused; the last good rules stay in force');
  };
  return await FollowedFiles.open(text, open, report, refreshTime);
}
