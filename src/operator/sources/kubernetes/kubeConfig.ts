import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { KubeConfig, type RequestContext } from '@kubernetes/client-node';
import { Agent, type Dispatcher } from 'undici';
import { parse } from 'yaml';
import { whyUnreadable } from '../../../config/environment.ts';
import { GatewayError } from '../../../model/errors.ts';
import { userAgent } from '../../../model/version.ts';

/**
 * A KubeConfig whose requests share connections. The library makes a connection pool for every single request, so that
 * each pays for a TLS handshake; here one pool is kept for as long as the certificates are the same.
 */
export class PooledKubeConfig extends KubeConfig {
  #options: ReturnType<KubeConfig['createDispatcherOptions']> | null = null;
  #pool: { readonly key: string; readonly agent: Agent } | null = null;

  override createDispatcherOptions(
    ...parameters: Parameters<KubeConfig['createDispatcherOptions']>
  ): ReturnType<KubeConfig['createDispatcherOptions']> {
    this.#options = super.createDispatcherOptions(...parameters);
    // For a pool the library would make one that no one uses, of every request.
    return this.#options.type === 'agent' ? { type: 'none' } : this.#options;
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    // Default of the library if it finds nothing.
    const cluster = this.getCurrentCluster();
    if (cluster?.server === NO_SERVER && !cluster.skipTLSVerify) throw new Error(NO_KUBECONFIG);
    await super.applySecurityAuthentication(context);
    // Watches, which the library makes, say it as well.
    context.setHeaderParam('User-Agent', userAgent);
    const { Authorization: credentials } = context.getHeaders();
    // Files of tokens often end with a line feed, which no header may have.
    if (credentials !== undefined) context.setHeaderParam('Authorization', credentials.trimEnd());
    const options = this.#options;
    if (options?.type !== 'agent') return;
    const key = JSON.stringify(options.connect);
    if (this.#pool?.key !== key) {
      const previous = this.#pool?.agent;
      // Not HTTP/2: everything would share one connection, and when that is half open, nothing would end it.
      const agent = new Agent({ allowH2: false, connect: { ...options.connect, timeout: 5_000 } } as Agent.Options);
      this.#pool = { key, agent };
      // Requests under way keep their connections until they are done.
      previous?.close().catch(() => undefined);
    }
    context.setDispatcher(this.#pool.agent as unknown as Dispatcher & Parameters<RequestContext['setDispatcher']>[0]);
  }

  async destroy(): Promise<void> {
    const agent = this.#pool?.agent;
    this.#pool = null;
    await agent?.destroy();
  }
}

/** The server of the library's configuration for a machine without any. */
const NO_SERVER = 'http://localhost:8080';
const NO_KUBECONFIG =
  'neither a service account nor a kubeconfig was found: run in a pod, or set resources.kubeconfig or the variable KUBECONFIG';

const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Loads the access to the API server: the file that is configured; in a pod its service account; otherwise the usual
 * kubeconfig of the user.
 * @param kubeconfig null when it is not set
 * @param field key or option that names the file
 * @throws GatewayError EG_IMPOSSIBLE when the file cannot be used
 */
export function loadKubeConfig(kubeconfig: string | null, field = 'resources.kubeconfig'): PooledKubeConfig {
  const config = new PooledKubeConfig();
  if (kubeconfig === null && existsSync(`${serviceAccount}/token`)) config.loadFromCluster();
  else {
    try {
      if (kubeconfig === null) config.loadFromDefault();
      else loadFile(config, kubeconfig);
    } catch (cause) {
      const file = kubeconfig === null ? 'the kubeconfig of the user (KUBECONFIG)' : kubeconfig;
      throw new GatewayError('EG_IMPOSSIBLE', `${field}: ${file} ${whyUnreadable(cause)}.`, { field, cause });
    }
  }
  return config;
}

/** Loads a kubeconfig whose `tokenFile` is read again each minute, as client-go does; the library reads it once. */
function loadFile(config: PooledKubeConfig, path: string): void {
  config.loadFromFile(path);
  const { users = [] } = parse(readFileSync(path, 'utf8')) as { users?: readonly NamedUser[] };
  const files = new Map(users.map(({ name, user }) => [name, user?.tokenFile]));
  config.users = config.users.map((user) => {
    const file = files.get(user.name);
    if (file === undefined) return user;
    const { token: _, ...rest } = user;
    return { ...rest, authProvider: { name: 'tokenFile', config: { tokenFile: resolve(dirname(path), file) } } };
  });
}

/** An entry of `users` of a kubeconfig, as far as the library leaves it out. */
interface NamedUser {
  readonly name: string;
  readonly user?: { readonly tokenFile?: string };
}

/**
 * The namespaces that are meant by `resources.namespaces`, or where that is empty by `resources.namespace`: its own value;
 * unset, that of the pod, else of the kubeconfig's context, else `default`; null for `*`, all.
 */
export function watchedNamespaces(
  { namespace, namespaces }: { readonly namespace: string | null; readonly namespaces: readonly string[] },
  config: KubeConfig,
): readonly string[] | null {
  if (namespaces.length > 0) return [...new Set(namespaces)];
  return namespace === '*' ? null : [namespace ?? ownNamespace(config)];
}

/** Namespace of the pod, or of the kubeconfig's context: where the Lease is. */
export function ownNamespace(config: KubeConfig): string {
  const file = `${serviceAccount}/namespace`;
  if (existsSync(file)) return readFileSync(file, 'utf8').trim();
  return config.getContextObject(config.getCurrentContext())?.namespace ?? 'default';
}
