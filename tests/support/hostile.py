"""What an agent or a foreign file may write to take over a page, by the name of the attack."""

from __future__ import annotations

ATTACKS = {
    "script-tag": "</title></style></pre><script>document.title='taken'</script>",
    "ansi-escape": "\x1b[2J\x1b[31mred\x1b]8;;http://example.org\x07link",
    "bidi-mark": "\u202esseccus\u202c \u2066\u2069\u200f\u200b",
    "javascript-link": '<a href="javascript:document.title=1">open</a> javascript:document.title=1',
    "fake-verdict-banner": '<div class="banner good" id="verdict"><p class="word">Success</p></div>',
    "svg-with-handlers": '<svg onload="document.title=1"><animate onbegin="document.title=1"/></svg>',
    "css-that-hides": "</style><style>.banner,.bad,main{display:none}</style>",
    "broken-attribute": "\"><img src=//example.org/x onerror=document.title='taken'>'",
    "template": "{{ 7*7 }} {% raw %} ${7*7} <!-- -->",
}
