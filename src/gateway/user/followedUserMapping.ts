import type { Logger } from 'pino';
import type { ProductNames } from '../../model/names.ts';
import { type Followed, followFile } from './followedFile.ts';
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
  return await followFile({ path, subject: 'file of user mappings', open, refreshTime, logger });
}
