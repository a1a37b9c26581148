# SPDX-License-Identifier: BSD-3-Clause
"""Worker whose output has all that a line copier can stumble over, written in one piece."""
import os

os.write(1, b"line1\n\ncr1\rcr2\rcr3\ncrlf\r\nbad\xff\xfeend\n\xc3\xa9 \xe2\x80\xa8\x0b\x0c\x1b[31mred\n"
            + b"long " + b"x" * 9000 + b"\nlast")
