/** Texts with which a user, a kubelet or an evacuator could attack their readers in a terminal, in the Temporal UI, or in a chat. */
export const hostileTexts: readonly { what: string; text: string }[] = [
  { what: 'colors', text: 'safe\u001b[31;5mred\u001b[0m' },
  { what: 'concealed text', text: '\u001b[8mhidden\u001b[28m' },
  { what: 'cursor movement', text: 'safe\u001b[2K\u001b[1A\rnode-1 drained' },
  { what: 'a window title', text: '\u001b]0;root@prod\u0007' },
  { what: 'a write to the clipboard', text: '\u001b]52;c;cm0gLXJmIC8K\u0007' },
  { what: 'a terminal hyperlink', text: '\u001b]8;;https://evil.example\u001b\\docs\u001b]8;;\u001b\\' },
  { what: '8-bit control sequences', text: '\u009b31mred\u009d0;title\u009c' },
  { what: 'backspaces, delete and NUL', text: 'node-1\b\b\u007f\u0000' },
  { what: 'text that runs from right to left', text: 'fdp.\u202egnp\u202c \u2066a\u2069' },
  { what: 'invisible characters', text: 'no\u200bde\u00ad-\ufeff1\u{e0041}' },
  { what: 'other ends of lines', text: 'one\u0085two\u2028three\u2029four' },
  { what: 'lines', text: 'one\n\n# Drained\n| node-9 | 0 |\n- **forged**\r\n~~~' },
  { what: 'half a surrogate pair', text: 'a\ud800b\udc00' },
  { what: 'a link', text: '[approve](https://evil.example "x") [a]: https://evil.example' },
  { what: 'an image', text: '![x](https://evil.example/track.png)' },
  { what: 'HTML', text: '<img src=x onerror=alert(1)><a href="javascript:alert(1)">x</a>&lt;' },
  { what: 'an autolink', text: '<https://evil.example>' },
  { what: 'code', text: '`a` ``` b ``` ~~~ c ~~~' },
  { what: 'cells of a table', text: 'a | b | c |' },
  { what: 'emphasis', text: '**bold** _em_ ~~gone~~ # $x^2$' },
  { what: 'templates of the UI', text: '{namespace} {workflowId}' },
  { what: 'escapes', text: '\\[x](https://evil.example) \\' },
  { what: 'an empty text', text: '' },
  { what: 'spaces', text: ' \t\n ' },
  { what: '64 KiB of letters', text: 'A'.repeat(65_536) },
  { what: '64 KiB of control characters', text: '\u001b'.repeat(65_536) },
  { what: '64 KiB of line ends', text: 'a\n'.repeat(32_768) },
  { what: '64 KiB of Markdown', text: '[](<|`'.repeat(10_923) },
  { what: '64 KiB of emoji', text: '😀'.repeat(16_384) },
];

/** Everything that may not reach a terminal, a line of a message, or a cell of a table. */
export const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/** Returns Markdown without what is escaped or code: what is left is interpreted. */
export function interpretedMarkdown(markdown: string): string {
  return markdown.replaceAll(/\\[!-/:-@[-`{-~]|`[^`\n]*`/g, '');
}
