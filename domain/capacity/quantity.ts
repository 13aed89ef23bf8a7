const form = /^([+-]?)(\d*)(?:\.(\d*))?(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?$/;

const decimalExponents: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const binarySuffixes = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/**
 * Returns a quantity of Kubernetes in thousandths (`Milli`) or in units, rounded up as the scheduler does: `100m` of cpu is 100
 * thousandths, `1Ki` of memory 1024 units. Returns 0 for text that is no quantity, which the apiserver stores nowhere.
 */
export function quantityOf(text: string, unit: 'Milli' | 'One'): number {
  const parts = form.exec(text);
  if (parts === null) return 0;
  const [, sign, whole = '', fraction = '', suffix = ''] = parts;
  if (whole === '' && fraction === '') return 0;
  const digits = BigInt(`${whole}${fraction}`);
  const binary = binarySuffixes.indexOf(suffix);
  const factor = 1024n ** BigInt(binary + 1);
  const exponent = exponentOf(suffix, binary >= 0) - fraction.length + (unit === 'Milli' ? 3 : 0);
  const scaled = digits * factor;
  const value =
    exponent >= 0 ? scaled * 10n ** BigInt(exponent) : dividedUp(scaled, 10n ** BigInt(-exponent));
  return Number(sign === '-' ? -value : value);
}

function exponentOf(suffix: string, isBinary: boolean): number {
  if (isBinary || suffix === '') return 0;
  return decimalExponents[suffix] ?? Number.parseInt(suffix.slice(1), 10);
}

function dividedUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
