import type { Logger } from 'pino';
import type { ProductNames } from '../../model/names.ts';
import { type Followed, followFile } from './followedFile.ts';
import { openUserMapping, type UserMapping, type UserMappingSettings } from './userMapping.ts';

/** What following the file of a mapping works with. */
export interface FollowedUserMappingOptions {
  readonly names: ProductNames;
  /** Milliseconds between two looks at the file. */
  readonly refreshTime: number;
  readonly logger: Logger;
}

/**
 * Makes the mapping of the configuration and follows its file, where it has one. Null where users are not taken from certificates.
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
  // The settings are the same: what they gave once they give again.
  const open = async () => (await openUserMapping(settings, names)) ?? current;
  return await followFile({ path, subject: 'file of user mappings', open, refreshTime, logger });
}
