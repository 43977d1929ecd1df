import { ldapServers } from '../../api/auth/openAuthentication.ts';
import { trustPeers } from '../../gateway/headers/trustedProxies.ts';
import { openGroupFile, READ_TIMEOUT_MS } from '../../gateway/user/groups/groupFile.ts';
import {
  certificateGroups,
  type GroupSource,
  headerGroups,
  ldapGroups,
  tokenClaimGroups,
  tokenReviewGroups,
  userInfoGroups,
} from '../../gateway/user/groups/groupSources.ts';
import { RememberedGroups } from '../../gateway/user/groups/rememberedGroups.ts';
import { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { MappedUsers } from '../../gateway/user/mappedUsers.ts';
import { namesWithoutPrefix } from '../../gateway/user/requestIssuers.ts';
import { type GroupSourceName, groupSourceNames } from '../../model/membership.ts';
import type { GatewayContext } from './context.ts';

/** Creates a source; null if not configured. */
type Opening = () => Promise<GroupSource | null>;

/**
 * Creates the mapping of user names; null if not configured.
 * @throws GatewayError naming the invalid key
 */
export async function openMappedUsers({ config, logger, onClose }: GatewayContext): Promise<MappedUsers | null> {
  if (config.userMapping === null) return null;
  const mapping = await MappedUsers.open(config.userMapping, logger);
  onClose(() => mapping.stop());
  return mapping;
}

/**
 * Creates the lookup of user groups from the sources of `userGroups` in order; null if not configured.
 * @param mapping maps names of API callers for the lookup, or null
 * @throws GatewayError naming the invalid key
 */
export async function openUserGroups(context: GatewayContext, mapping: MappedUsers | null): Promise<UserGroups | null> {
  const { config, names, clock, environment, logger, onClose } = context;
  const settings = config.userGroups;
  if (settings === null) return null;
  const openings: Readonly<Record<GroupSourceName, Opening>> = {
    token: async () => (settings.token === null ? null : tokenClaimGroups(settings.token)),
    async userInfo() {
      if (settings.userInfo === null) return null;
      const { groups } = namesWithoutPrefix(config.requestAnalyzerConfig.tokenIssuers);
      return userInfoGroups(settings.userInfo, groups);
    },
    tokenReview: async () => (settings.tokenReview === null ? null : tokenReviewGroups),
    certificate: async () => (settings.certificate === null ? null : certificateGroups(settings.certificate.field)),
    // Trusting all forwarded headers (http-server.process-forwarded) must not allow arbitrary groups.
    header: async () =>
      settings.header === null
        ? null
        : headerGroups(settings.header, trustPeers(false, config.server.trustedProxies), names),
    async ldap() {
      if (settings.ldap === null) return null;
      const { configPath, ...search } = settings.ldap;
      const server = await ldapServers(environment)(configPath, 'userGroups.ldap.configPath');
      if (server === null) return null;
      return ldapGroups((user) => server.groupsOf(user, search), new RememberedGroups(settings, clock, logger));
    },
    async file() {
      if (settings.file === null) return null;
      const { keepLastKnown } = settings;
      const fileSettings = { ...settings.file, keepLastKnown, readTimeout: READ_TIMEOUT_MS };
      const file = await openGroupFile(fileSettings, clock, logger);
      onClose(() => file.stop());
      return file;
    },
  };
  const sources: GroupSource[] = [];
  for (const name of settings.sources ?? groupSourceNames) {
    const source = await openings[name]();
    if (source !== null && !sources.some((present) => present.name === name)) sources.push(source);
  }
  return new UserGroups(sources, settings, mapping);
}
