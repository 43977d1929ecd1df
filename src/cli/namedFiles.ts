import { keySource, ldapServers } from '../api/auth/openAuthentication.ts';
import { sessionKeys } from '../api/auth/sessions.ts';
import type { Environment } from '../config/environment.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { readTlsFiles, tlsMaterial } from '../gateway/tls/tlsFiles.ts';
import { readKeyFiles } from '../gateway/user/clusterTokens.ts';
import { readGroupFile } from '../gateway/user/groups/userGroups.ts';
import { openNameRules, openUserMapping } from '../gateway/user/userMapping.ts';
import { GatewayError } from '../model/errors.ts';
import { productNames } from '../model/names.ts';
import { parseJdbcUrl } from '../store/jdbcUrl.ts';
import { databaseSettings, incomingTlsFiles, outgoingTlsFiles } from './settings.ts';

/**
 * Checks the URL of the database and the files of keys, certificates and LDAP servers in the configuration: returns a
 * line of text for each mistake that names the key. The start reads the same files. Changes nothing.
 */
export async function namedFileProblems(config: GatewayConfig, environment: Environment): Promise<readonly string[]> {
  const problems: string[] = [];
  const tlsFiles = [
    incomingTlsFiles(config),
    ...(['proxy', 'monitor', 'router'] as const).map((client) => outgoingTlsFiles(config, client)),
  ];
  const ldap = ldapServers(environment);
  const { authentication, authorization } = config;
  const tokenKeys = config.clientCertificateJwtAuthentication;
  const reads: readonly (() => unknown)[] = [
    ...tlsFiles.map((files) => async () => files === null || tlsMaterial(files, await readTlsFiles(files))),
    () => {
      const database = parseJdbcUrl(databaseSettings(config));
      if ('problems' in database)
        problems.push(...database.problems.map(({ field, message }) => `${field}: ${message}`));
    },
    () => sessionKeys(keySource(authentication)),
    () => ldap(authentication?.form?.ldapConfigPath ?? null, 'authentication.form.ldapConfigPath'),
    () =>
      openUserMapping(
        config.requestAnalyzerConfig,
        productNames(config.protocol.productName, config.protocol.clusterHeaders),
      ),
    async () => config.userMapping === null || openNameRules(config.userMapping),
    async () => config.userGroups?.file == null || readGroupFile(config.userGroups.file.path),
    () => ldap(config.userGroups?.ldap?.configPath ?? null, 'userGroups.ldap.configPath'),
    async () => {
      const { source, kubeconfig } = config.resources;
      if (source !== 'kubernetes' || kubeconfig === null) return;
      const { loadKubeConfig } = await import('../operator/sources/kubernetes/kubeConfig.ts');
      loadKubeConfig(kubeconfig);
    },
    async () => tokenKeys === null || readKeyFiles(tokenKeys),
    () => ldap(authorization?.ldapConfigPath ?? null, 'authorization.ldapConfigPath'),
  ];
  for (const read of reads) {
    try {
      await read();
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      problems.push(error.message);
    }
  }
  return problems;
}
