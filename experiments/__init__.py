"""The paper's tables and figures, reproduced, with every method that it compares against."""
