import sys

from tillbook.cli import main

sys.exit(main())
