const minMinorVersion = 33;

/** Returns why the apiserver is too old for deploy/; undefined if it is not. `version` is one such as `v1.37.1`. */
export function versionProblem(version: string): string | undefined {
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  const isOld = Number(major) === 1 && Number(minor) < minMinorVersion;
  return isOld ? `the apiserver has version ${version}` : undefined;
}
